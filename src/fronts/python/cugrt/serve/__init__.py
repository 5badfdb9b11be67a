"""Replicas of models under Ray Serve: see docs/serving.md. Needs the extra cugrt[serve].

    from ray import serve
    from cugrt.serve import LLMDeployment, ModelDeployment

    model = serve.run(ModelDeployment.options(num_replicas=2).bind("model.onnx", max_batch=8))
    serve.run(LLMDeployment.bind("model.gguf", places=16), route_prefix="/")   # OpenAI's API on port 8000
"""
try:
    import ray.serve  # noqa: F401
except ImportError as error:
    raise ImportError("cugrt.serve stands on Ray Serve, which is not installed: pip install 'cugrt[serve]'") from error

from ._llm import LLMDeployment
from ._model import ModelDeployment

__all__ = ["LLMDeployment", "ModelDeployment"]
