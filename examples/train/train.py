"""Data-parallel training of a small character model on ten of Shakespeare's sonnets, with checkpoints.

Started on every node by torch.distributed.run (see train.sbatch). The checkpoint is written by rank 0 every
--save-every steps under another name and renamed, so that a node lost at any moment leaves a whole one behind; a
restarted job goes on from it.
"""
import argparse
import os
import signal
import socket
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class CharModel(nn.Module):
    """Predicts the next character from the last `context` ones."""

    def __init__(self, vocabulary, context, width=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 16)
        self.layers = nn.Sequential(
            nn.Linear(16 * context, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, vocabulary))

    def forward(self, x):
        return self.layers(self.embed(x).flatten(1))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.path.join(here, "sonnets.txt"))
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="stretch every step to at least this long")
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world} on {socket.gethostname()}, CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')}", flush=True)

    stop = {"asked": False}
    signal.signal(signal.SIGUSR1, lambda *_: stop.update(asked=True))  # --signal: the time limit is near

    text = open(args.data, encoding="utf-8").read()
    letters = sorted(set(text))
    index = {c: i for i, c in enumerate(letters)}
    data = torch.tensor([index[c] for c in text])
    context = 12
    inputs = data.unfold(0, context, 1)[:-1]
    targets = data[context:]

    torch.manual_seed(1)
    model = DistributedDataParallel(CharModel(len(letters), context))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    step = 0
    if os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
        if rank == 0:
            print(f"resumed from checkpoint at step {step} (restart {os.environ.get('SLURM_RESTART_COUNT', '0')})", flush=True)

    def save():
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                       args.checkpoint + ".new")
            os.replace(args.checkpoint + ".new", args.checkpoint)

    while step < args.steps:
        began = time.monotonic()
        # The batch of a step depends on the step and the rank alone, so a resumed run sees what an unbroken one would.
        generator = torch.Generator().manual_seed(1000 * step + rank)
        rows = torch.randint(len(inputs), (64,), generator=generator)
        loss = nn.functional.cross_entropy(model(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        shown = loss.detach().clone()
        dist.all_reduce(shown)
        asked = torch.tensor(int(stop["asked"]))
        dist.all_reduce(asked)
        if step % args.save_every == 0 or step == args.steps or asked:
            save()
        if rank == 0 and (step % 20 == 0 or step == 1 or step == args.steps):
            print(f"step {step:4d}  loss {shown.item() / world:.4f}", flush=True)
        if asked:
            if rank == 0:
                print(f"stopping at step {step}: told that the time limit is near", flush=True)
            break
        time.sleep(max(0.0, args.step_seconds - (time.monotonic() - began)))
    dist.barrier()
    if rank == 0:
        print("training finished" if step >= args.steps else "training interrupted", flush=True)
    dist.destroy_process_group()
    # What is left of the group goes with the model, and waits for its threads with Python locked. One of them may still
    # have the last reduced tensor: were that the last reference, it would wait for Python (PyTorch 1.13). So: now.
    del model


if __name__ == "__main__":
    main()
