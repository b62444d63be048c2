# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # A census table
#
# The UCI Adult table comes with BlowfishDB: 48,842 people of the 1994 census. In this tutorial a curator declares it, and an analyst asks for ages, hours and wages.

# %%
import os
import tempfile
from importlib.resources import files
from pathlib import Path

import blowfishdb as bf

os.chdir(tempfile.mkdtemp())
Path("blowfish.toml").write_text('ledger = "sqlite:///census.ledger"\nmark = "census.mark"\n')

census = bf.Dataset(
    "census",
    source=str(files("blowfishdb") / "data/adult.parquet"),
    domain={
        "age": bf.integers(17, 90, null=17),
        "hours_per_week": bf.integers(1, 99, null=40),
        "sex": bf.categorical(["Female", "Male"], null="Female", outside="Female"),
        "income": bf.categorical(["<=50K", ">50K"], null="<=50K", outside="<=50K"),
    },
    policy=bf.Policy({"age": bf.threshold(5), "sex": bf.public()}),
    epsilon="3",
    per_analyst="2",
)
with bf.curate("blowfish.toml", by="cora") as curator:
    curator.add(census)

# %% [markdown]
# ## The price first
#
# A preview reads no data and costs nothing.

# %%
db = bf.connect("blowfish.toml", analyst="ana")
people = db["census"]
ages = people.where(bf.col("sex") == "Female").histogram(bf.col("age").bins(5))
ages.preview(accuracy=60)

# %% [markdown]
# The filter on sex costs nothing, because sex is public here. If it were hidden, a record could leave the filter by a hidden move, and the price would be higher.

# %%
answer = ages.release(accuracy=60)
answer

# %%
picture = answer.plot()

# %% [markdown]
# ## Two attributes

# %%
together = people.histogram2d(bf.col("age").bins(5), bf.col("hours_per_week").bins(10)).release(epsilon="0.4")
picture = together.plot()

# %% [markdown]
# ## A mean, quartiles, and SQL

# %%
print(people.mean("age").release(epsilon="0.05"))
print(people.quantiles("age", [0.25, 0.5, 0.75]).release(accuracy=300))
print(db.sql("SELECT income, COUNT(*) FROM census GROUP BY income", alpha=60))

# %% [markdown]
# ## The remaining budget, and the promise

# %%
print("spent:", float(db.budget("census").spent))
print(answer.note())
db.close()
