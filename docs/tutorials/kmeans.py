# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # k-means under a policy
#
# This tutorial finds four clusters of made-up points. You pay for one release of weights on a grid, and then compute clusters from it as often as you like.

# %%
import os
import tempfile
from pathlib import Path

import duckdb
import matplotlib.pyplot as plt
import numpy as np

import blowfishdb as bf

os.chdir(tempfile.mkdtemp())
Path("blowfish.toml").write_text('ledger = "sqlite:///points.ledger"\nmark = "points.mark"\n')
made = np.random.default_rng(7)
middles = np.array([[20, 25], [70, 20], [35, 75], [80, 70]])
points = (middles[made.integers(0, 4, 5_000)] + made.normal(0, 6, (5_000, 2))).clip(0, 99.99)
duckdb.sql(
    "CREATE TABLE points AS SELECT unnest($1) AS x, unnest($2) AS y",
    params=[points[:, 0].tolist(), points[:, 1].tolist()],
)
duckdb.sql("COPY points TO 'points.parquet'")


def declared(name, policy):
    domain = {"x": bf.bins(0, 100, width=1, null=0), "y": bf.bins(0, 100, width=1, null=0)}
    return bf.Dataset(name, source=f"{name}.parquet", domain=domain, policy=policy, epsilon="2")


duckdb.sql("COPY points TO 'near.parquet'")
with bf.curate("blowfish.toml", by="cora") as curator:
    curator.add(declared("points", bf.Policy()))
    curator.add(declared("near", bf.Policy({}, joint=[bf.grid(["x", "y"], 5, "l1")])))

# %% [markdown]
# `points` is under differential privacy. `near` hides places up to 5 apart: one hidden move takes a record no further.

# %%
db = bf.connect("blowfish.toml", analyst="ana")
found = {
    name: bf.analysis.kmeans(db[name].columns(["x", "y"]), 4, epsilon="0.2", seed=1) for name in ("points", "near")
}
for name, one in found.items():
    nearest = np.sqrt(((one.cluster_centers_[:, None] - middles) ** 2).sum(-1)).min(0)
    print(f"{name:<7} how far the nearest centre is from each true middle: {nearest.round(1)}")

# %%
figure, panels = plt.subplots(1, 2, figsize=(8, 3.8), sharey=True)
for panel, (name, one) in zip(panels, found.items(), strict=True):
    panel.plot(points[:, 0], points[:, 1], ".", markersize=1, color="#a9cfe2")
    panel.plot(one.cluster_centers_[:, 0], one.cluster_centers_[:, 1], "X", markersize=11, color="#c8553d")
    panel.set(title={"points": "everything secret", "near": "places within 5"}[name], aspect="equal")
figure.tight_layout()

# %% [markdown]
# The points in the picture are secret; we may draw them only because we made them up. The release itself holds weights on a grid and nothing else:

# %%
print(found["near"].released)
print("sizes of the clusters, estimated from the release:", found["near"].estimated_cluster_sizes_.round())
db.close()
