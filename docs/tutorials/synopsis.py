# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # Publishing a synopsis
#
# A synopsis is a private table of counts. You pay for it once, keep it as one Parquet file, and query it for ever, without a database, a ledger or a budget.

# %%
import os
import tempfile
from importlib.resources import files
from pathlib import Path

import blowfishdb as bf
from blowfishdb.analysis.olap import cube
from blowfishdb.analysis.synthetic_rows import synthetic_rows

os.chdir(tempfile.mkdtemp())
Path("blowfish.toml").write_text('ledger = "sqlite:///census.ledger"\nmark = "census.mark"\n')
census = bf.Dataset(
    "census",
    source=str(files("blowfishdb") / "data/adult.parquet"),
    domain={
        "age": bf.integers(17, 90, null=17),
        "sex": bf.categorical(["Female", "Male"], null="Female", outside="Female"),
        "income": bf.categorical(["<=50K", ">50K"], null="<=50K", outside="<=50K"),
    },
    epsilon="1",
)
with bf.curate("blowfish.toml", by="cora") as curator:
    curator.add(census)

# %% [markdown]
# Everything is secret here: no policy was given, so this is differential privacy on the whole record. A preview shows how far off the answers will be before
# you pay:

# %%
db = bf.connect("blowfish.toml", analyst="ana")
table = db["census"].histogram(bf.col("age").bins(5), "sex", "income")
table.publish_preview(epsilon="0.5")

# %%
made = table.publish(epsilon="0.5")
made.save("census.parquet")
print(made)

# %% [markdown]
# ## Query it, free of charge

# %%
kept = bf.open_synopsis("census.parquet")
kept.where(bf.col("income") == ">50K").histogram("sex")

# %%
picture = kept.where(bf.col("sex") == "Female").cdf("age").plot()

# %% [markdown]
# Intervals cover the noise, which adds up over many cells. If you need a promise about one range, release that range.
#
# ## Roll up, slice, drill down

# %%
by = cube(kept, "income", bf.col("age").bins(20))
by.roll_up("age").answer()

# %%
by.slice("income", ">50K").drill_down(bf.col("age").bins(10)).answer()

# %% [markdown]
# ## Synthetic rows
#
# For tools that need rows, make whole records with the counts of the synopsis. They cost nothing and hide exactly what the synopsis hides.

# %%
synthetic_rows(kept, seed=1).to_pandas().head()
