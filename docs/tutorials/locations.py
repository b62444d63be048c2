# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # Locations
#
# This tutorial counts people on a map of 32 by 32 squares. Whether somebody was in this or the next square must be hidden; whether they were in the north or
# in the south need not be. This is a joint threshold, `grid`: places at most theta apart are hidden from each other.
#
# The places are made up: three towns and some country between them.

# %%
import os
import tempfile
from pathlib import Path

import duckdb
import numpy as np

import blowfishdb as bf

os.chdir(tempfile.mkdtemp())
Path("blowfish.toml").write_text('ledger = "sqlite:///places.ledger"\nmark = "places.mark"\n')
made = np.random.default_rng(1)
towns = np.array([[8, 8], [22, 12], [16, 25]])
near = towns[made.integers(0, 3, 20_000)] + made.normal(0, 1.6, (20_000, 2))
spread = np.vstack([near, made.uniform(0, 32, (2_000, 2))]).clip(0, 31.99)
duckdb.sql(
    "CREATE TABLE places AS SELECT unnest($1) AS east, unnest($2) AS north",
    params=[spread[:, 0].tolist(), spread[:, 1].tolist()],
)
duckdb.sql("COPY places TO 'places.parquet'")

# %%
with bf.curate("blowfish.toml", by="cora") as curator:
    curator.add(
        bf.Dataset(
            "places",
            source="places.parquet",
            domain={"east": bf.bins(0, 32, width=1, null=0), "north": bf.bins(0, 32, width=1, null=0)},
            policy=bf.Policy({}, joint=[bf.grid(["east", "north"], 3, "l2")]),
            epsilon="3",
        )
    )
db = bf.connect("blowfish.toml", analyst="ana")
for sentence in db["places"].policy_words():
    print("-", sentence)

# %% [markdown]
# ## A map
#
# `adaptive-tree` finds where there are people, in certified stages, and measures more finely there.

# %%
question = db["places"].histogram2d("east", "north")
careful = question.release(epsilon="0.1", mechanism="adaptive-tree")
picture = careful.plot()

# %% [markdown]
# How good is it? The data is made up, so we may compare with the truth: the mean error per square, beside that of measuring every square separately.

# %%
plain = question.release(epsilon="0.1", mechanism="identity")
truth = np.histogram2d(spread[:, 0], spread[:, 1], bins=32, range=[[0, 32], [0, 32]])[0].ravel()
for answer in (careful, plain):
    print(f"{answer.mechanism:<14} mean error per square {np.abs(answer.values - truth).mean():.2f}")

# %% [markdown]
# ## How many within a district?
#
# You can ask for boxes directly, with an accuracy promise.

# %%
boxes = db["places"].rectangles(["east", "north"], [((4, 12), (4, 12)), ((18, 26), (8, 16)), ((0, 32), (0, 16))])
boxes.release(accuracy=150)
db.close()
