/* libcugrt-onnx: from an ONNX file to a module and its weights.
 *
 * A library of its own, beside libcugrt, whose module_load opens it when it meets an ONNX file; who
 * wants more than that links it, and hands what it gives to module_adopt and weights_add_shared.
 * Nothing prints, nothing aborts, no exception leaves it; a model that cannot be imported is an
 * error that names every node that is in the way. Objects may be used by one thread at a time. */
#ifndef CUGRT_ONNX_H
#define CUGRT_ONNX_H

#include "cugrt/cugrt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cugrt_onnx_model cugrt_onnx_model;

typedef struct cugrt_onnx_options {
  size_t struct_size;
  const char *const *dims; /* "NAME=SYMBOL" or "NAME=NUMBER": what dimensions are called, or are */
  size_t dim_count;
  const char *const *bounds; /* "SYMBOL=A..B" */
  size_t bound_count;
  const char *const *bind; /* "INPUT=VALUE": inputs that are constants */
  size_t bind_count;
  /* What a run will be given (addresses of host memory): shapes give the symbols their upper
   * bounds, and values are taken where an input decides what the module is. */
  const char *const *given_names;
  const cugrt_tensor *given;
  size_t given_count;
  int32_t fix_given; /* 1: dimensions of given inputs are numbers, not symbols */
  /* "INPUT=hwc" or "INPUT=nv12" and more, as docs/onnx.md says: what an image is made of. */
  const char *const *preprocess;
  size_t preprocess_count;
  int32_t every_value; /* 1: floating values on the device are results, too, behind the model's */
} cugrt_onnx_options;

/* The code and, in `model`, the message or what was imported; then the message says why it was
 * imported for the given shapes alone, if it was. `model` is null only where memory ran out. What
 * `given` refers to must stay until the model is freed. */
cugrt_code cugrt_onnx_import(const char *path, const cugrt_onnx_options *options,
                             cugrt_onnx_model **model);
const char *cugrt_onnx_message(const cugrt_onnx_model *model);
const char *cugrt_onnx_text(const cugrt_onnx_model *model, size_t *size);
/* For module_adopt; null where nothing was imported. It lives as long as the model. */
const cugrt_built_module *cugrt_onnx_module(const cugrt_onnx_model *model);
/* Weights lie in the file's pages, which the model keeps mapped. 0 beyond the last one. */
int32_t cugrt_onnx_weight(const cugrt_onnx_model *model, size_t index, const char **name,
                          cugrt_tensor *tensor);
/* What an input of the file is taken as: a tensor, one integer of the host, or a list of them. */
typedef enum cugrt_onnx_input_kind {
  CUGRT_ONNX_TENSOR = 0,
  CUGRT_ONNX_INTEGER = 1,
  CUGRT_ONNX_SHAPE = 2
} cugrt_onnx_input_kind;
/* An input of the file, the parameter that it is (null: it is bound to a value), and its kind. 0
 * beyond the last one. */
int32_t cugrt_onnx_input(const cugrt_onnx_model *model, size_t index, const char **name,
                         const char **parameter, int32_t *kind);
/* A result of the file, in the order of the function's. 0 beyond the last one. */
int32_t cugrt_onnx_output(const cugrt_onnx_model *model, size_t index, const char **name);
/* The node of the file that makes a result, its op and its place among the graph's nodes; empty
 * names where an input or an initial value is the result. 0 beyond the last one. */
int32_t cugrt_onnx_output_node(const cugrt_onnx_model *model, size_t index, const char **node,
                               const char **op, size_t *place);
/* A dimension of the file, and its symbol. 0 beyond the last one. */
int32_t cugrt_onnx_symbol(const cugrt_onnx_model *model, size_t index, const char **dimension,
                          const char **symbol);
/* A value of the function and the name of the file's node that it comes from (of a node without a
 * name that of its first output). 0 beyond the last one. */
int32_t cugrt_onnx_value_node(const cugrt_onnx_model *model, size_t index, const char **value,
                              const char **node);
/* All weights as a safetensors file; the message of a failure is the model's. */
cugrt_code cugrt_onnx_write_weights(cugrt_onnx_model *model, const char *path);
/* The way back: a module's text, as module_print gives it before it is lowered, as an ONNX file.
 * Ops are nodes of ONNX where it has them and else of the domain "cugrt"; private functions are
 * local functions. `imported` gives weights and the names of inputs and results; null: weights are
 * inputs. The file is whole or stays what it was. The code, and in `*problem` (freed by free()) the
 * message. */
cugrt_code cugrt_onnx_export(const char *text, size_t size, const cugrt_onnx_model *imported,
                             const char *path, char **problem);
void cugrt_onnx_free(cugrt_onnx_model *model);

#ifdef __cplusplus
}
#endif

#endif /* CUGRT_ONNX_H */
