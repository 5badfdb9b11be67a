/* libcugrt-onnx turns an ONNX file into a module and its weights.
 *
 * A library of its own: module_load of libcugrt opens it for ONNX files. A program that needs
 * more links it, and hands its results to module_adopt and weights_add_shared. It prints
 * nothing, ends no process and throws nothing. A model that cannot be imported is an error that
 * names every node in the way. Objects may be used by one thread at a time. */
#ifndef CUGRT_ONNX_H
#define CUGRT_ONNX_H

#include "cugrt/cugrt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cugrt_onnx_model cugrt_onnx_model;

typedef struct cugrt_onnx_options {
  size_t struct_size;
  const char *const *dims; /* "NAME=SYMBOL" or "NAME=NUMBER": names or fixes a dimension */
  size_t dim_count;
  const char *const *bounds; /* "SYMBOL=A..B" */
  size_t bound_count;
  const char *const *bind; /* "INPUT=VALUE": inputs that are constants */
  size_t bind_count;
  /* Arguments that a run will get (addresses of host memory). Their shapes give the symbols
   * upper bounds; their values are read if an input decides the module. */
  const char *const *given_names;
  const cugrt_tensor *given;
  size_t given_count;
  int32_t fix_given; /* 1: dimensions of given inputs are numbers, not symbols */
  /* "INPUT=hwc" or "INPUT=nv12" and more, as in docs/onnx.md: the frames that make an image. */
  const char *const *preprocess;
  size_t preprocess_count;
  int32_t every_value; /* 1: floating values on the device become results, too, after the model's */
} cugrt_onnx_options;

/* Returns the code; `model` holds the imported module or the error message. After a success the
 * message says why the module holds for the given shapes alone, if it does. `model` is null only
 * if memory ran out. Everything that `given` refers to must live as long as the model. */
cugrt_code cugrt_onnx_import(const char *path, const cugrt_onnx_options *options,
                             cugrt_onnx_model **model);
const char *cugrt_onnx_message(const cugrt_onnx_model *model);
const char *cugrt_onnx_text(const cugrt_onnx_model *model, size_t *size);
/* For module_adopt; null if nothing was imported. Lives as long as the model. */
const cugrt_built_module *cugrt_onnx_module(const cugrt_onnx_model *model);
/* Weights lie in the file's pages, which the model keeps mapped. 0 beyond the last one. */
int32_t cugrt_onnx_weight(const cugrt_onnx_model *model, size_t index, const char **name,
                          cugrt_tensor *tensor);
/* Kinds of inputs of the file: a tensor, one integer of the host, or a list of them. */
typedef enum cugrt_onnx_input_kind {
  CUGRT_ONNX_TENSOR = 0,
  CUGRT_ONNX_INTEGER = 1,
  CUGRT_ONNX_SHAPE = 2
} cugrt_onnx_input_kind;
/* An input of the file, its parameter (null: the input is bound to a value), and its kind. 0
 * beyond the last one. */
int32_t cugrt_onnx_input(const cugrt_onnx_model *model, size_t index, const char **name,
                         const char **parameter, int32_t *kind);
/* A result of the file, in the order of the function's. 0 beyond the last one. */
int32_t cugrt_onnx_output(const cugrt_onnx_model *model, size_t index, const char **name);
/* The node of the file that makes a result, its op and its place among the graph's nodes; empty
 * names if the result is an input or an initial value. 0 beyond the last one. */
int32_t cugrt_onnx_output_node(const cugrt_onnx_model *model, size_t index, const char **node,
                               const char **op, size_t *place);
/* A dimension of the file, and its symbol. 0 beyond the last one. */
int32_t cugrt_onnx_symbol(const cugrt_onnx_model *model, size_t index, const char **dimension,
                          const char **symbol);
/* A value of the function and the name of the file's node that it comes from (for a node without
 * a name, its first output's name). 0 beyond the last one. */
int32_t cugrt_onnx_value_node(const cugrt_onnx_model *model, size_t index, const char **value,
                              const char **node);
/* Writes all weights as a safetensors file; cugrt_onnx_message gives the message of a failure. */
cugrt_code cugrt_onnx_write_weights(cugrt_onnx_model *model, const char *path);
/* Exports a module's text, as module_print gives it before lowering, as an ONNX file. Ops become
 * nodes of ONNX if it has them, else of the domain "cugrt"; private functions become local
 * functions. `imported` gives weights and the names of inputs and results; null: weights are
 * inputs. Writes the file whole or not at all. Returns the code; `*problem` gets the message, to
 * be freed with free(). */
cugrt_code cugrt_onnx_export(const char *text, size_t size, const cugrt_onnx_model *imported,
                             const char *path, char **problem);
void cugrt_onnx_free(cugrt_onnx_model *model);

#ifdef __cplusplus
}
#endif

#endif /* CUGRT_ONNX_H */
