"""A language model behind OpenAI's API: `serve run app:application`, with MODEL=model.gguf in the environment.

    curl http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' \\
        -d '{"model": "model.gguf", "prompt": "The capital of France is", "max_tokens": 16, "stream": true}'
"""
import os

from cugrt.serve import LLMDeployment

# As many replicas as fit: with a GPU, ray_actor_options={"num_gpus": 0.5} puts two on each.
application = LLMDeployment.options(num_replicas=int(os.environ.get("REPLICAS", "1"))).bind(
    os.path.abspath(os.environ["MODEL"]), places=8, max_queue=32, dtype=os.environ.get("DTYPE", "float32"))
