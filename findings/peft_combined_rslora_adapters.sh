#!/usr/bin/env bash
# PEFT 0.21.2 (PyPI peft, with PyTorch 2.15.0): add_weighted_adapter of rank-stabilised LoRA adapters (use_rslora) makes
# one that is too large by the root of its rank. The method's own text calls the combination types "cat" and "svd"
# precise. They fold the old scales into the new matrices and mean the new scale to be 1: the new adapter's lora_alpha
# is its r. It keeps use_rslora, though, by which the scale is lora_alpha / sqrt(r), 2.83 with a rank of 8 and 8 with
# one of 64. Without use_rslora the same call is right. What is saved and loaded again is as much too large. Seen on 29
# November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT # 6 GB, most of it what PyTorch brings along
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install peft==0.21.2 torch==2.15.0 transformers==5.24.0 accelerate==1.15.0 numpy==2.4.6
cat >"$folder/seen.py" <<'P'
import sys

import numpy as np
import torch
from peft import get_peft_model, LoraConfig, PeftModel


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8, bias=False)
        torch.nn.init.zeros_(self.linear.weight)  # so that all that comes out is the adapter's

    def forward(self, x):
        return self.linear(x)


def product(model, adapter):
    model.set_adapter(adapter)
    return model(torch.eye(8)).detach().double().numpy().T


rank, alpha, weights = 4, 8, {"one": 0.5, "two": 2.0}
for stabilised in (False, True):
    torch.manual_seed(1)
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=["linear"], use_rslora=stabilised,
                        init_lora_weights=False)
    model = get_peft_model(Layer(), config, adapter_name="one")
    model.add_adapter("two", config)
    lora = model.base_model.model.linear
    scale = alpha / (rank**0.5 if stabilised else rank)
    sum_of = sum(weight * scale * lora.lora_B[name].weight.detach().double().numpy()
                 @ lora.lora_A[name].weight.detach().double().numpy() for name, weight in weights.items())
    by_model = sum(weight * product(model, name) for name, weight in weights.items())
    print("use_rslora", stabilised, "both adapters as by hand", np.allclose(by_model, sum_of, atol=1e-5))
    for kind, more in (("cat", {}), ("svd", {"svd_rank": 2 * rank})):
        model.add_weighted_adapter(list(weights), list(weights.values()), kind, combination_type=kind, **more)
        place = f"{sys.argv[1]}/{stabilised}"
        model.save_pretrained(place, selected_adapters=[kind])
        loaded = PeftModel.from_pretrained(Layer(), f"{place}/{kind}", adapter_name=kind)
        for result, whose in ((product(model, kind), "combined"), (product(loaded, kind), "loaded again")):
            times = (result * sum_of).sum() / (sum_of * sum_of).sum()
            alike = np.allclose(result, times * sum_of, atol=1e-4)
            print(" ", kind, whose, round(times, 3), "times the sum by hand", alike)
P
seen=$("$folder/venv/bin/python" -W ignore "$folder/seen.py" "$folder" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
use_rslora False both adapters as by hand True
  cat combined 1.0 times the sum by hand True
  cat loaded again 1.0 times the sum by hand True
  svd combined 1.0 times the sum by hand True
  svd loaded again 1.0 times the sum by hand True
use_rslora True both adapters as by hand True
  cat combined 2.828 times the sum by hand True
  cat loaded again 2.828 times the sum by hand True
  svd combined 2.828 times the sum by hand True
  svd loaded again 2.828 times the sum by hand True
X
)
[ "$seen" = "$expected" ]
