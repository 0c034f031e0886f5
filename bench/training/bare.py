"""The step of the recipe and nothing else: DDP, packs that are in memory already, no report, no checkpoint, no Ray.

torchrun --standalone --nproc-per-node 2 -m training.bare --cache FOLDER
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from recipes.engine.data.loading import load_corpora, texts_of
from recipes.engine.data.plan import Plan, packs_of_rank
from recipes.engine.data.settings import Data
from recipes.engine.data.vocabulary import train_vocabulary
from recipes.engine.loss import summed_loss
from recipes.engine.model import Architecture, Lora, Model, load_network
from recipes.engine.optimizer import Optimizer, make_optimizer
from torch.nn.parallel import DistributedDataParallel
from training.given import LEARNING_RATE, arguments
from training.window import Window, leave


def main() -> None:
    parser = arguments(str(__doc__))
    parser.add_argument("--packs", type=int, default=8, help="of all processes, in a step")
    parser.add_argument("--pack-tokens", type=int, default=1024)
    values = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    data = Data(max_tokens=1024, pack_tokens=values.pack_tokens, packs=values.packs, cache_dir=values.cache)
    tokenizer = train_vocabulary(texts_of(data), Architecture().vocabulary)
    corpus = load_corpora(data, tokenizer, lambda _: None).train
    plan = Plan(corpus.lengths_D, corpus.learned_D, data, seed=0)
    last = values.warmup_steps + values.steps
    batches = [plan.step(step) for step in range(1, last + 1)]
    packs = [packs_of_rank(corpus, batch, rank, world) for batch in batches]

    device = torch.device("cpu")
    torch.manual_seed(0)
    network = load_network(Model(), Architecture(), Lora(), tokenizer, device)
    model = DistributedDataParallel(network, gradient_as_bucket_view=True)
    optimizer = make_optimizer(Optimizer(learning_rate=LEARNING_RATE), network)
    window = Window("the step alone", warmup_steps=values.warmup_steps, steps=values.steps)
    for batch, own in zip(batches, packs, strict=True):
        tokens = sum(len(pack.ids_T) for pack in own)
        window.count(tokens=tokens, padded_tokens=tokens)
        for pack in own[:-1]:
            with model.no_sync():
                (summed_loss(model, pack, device, by_document=True) * world / batch.learned).backward()
        loss = summed_loss(model, own[-1], device, by_document=True) * world / batch.learned
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        window.stepped()
    window.report(loss.item())
    leave()


if __name__ == "__main__":
    main()
