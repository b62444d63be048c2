# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # Choosing a policy
#
# A curator has the census table that comes with BlowfishDB and must decide what is secret about `capital_loss`. This tutorial compares policies by their price and
# by what they protect. None of this reads data: quotes depend on the query and the policy alone.

# %%
import matplotlib.pyplot as plt

import blowfishdb as bf

table = bf.domain({"capital_loss": bf.bins(0, 4400, width=20, null=0)})
question = bf.query("cdf", ["capital_loss"])

# %% [markdown]
# ## The price of the same accuracy
#
# All 220 running counts must be within 150 of the truth, together, with probability 0.95.

# %%
thresholds = [20, 50, 100, 200, 500, 1000, 2000]


def price(family):
    compiled = bf.compile_query(table, bf.Policy({"capital_loss": family}), question)
    return float(bf.quote(compiled.problem, alpha=150, beta=0.05).best.epsilon)


prices = [price(bf.threshold(theta)) for theta in thresholds]
everything = price(bf.full())
print(f"everything secret: {everything:.3f}; within 100: {prices[2]:.3f}")

# %%
figure, axes = plt.subplots(figsize=(7, 3.4))
axes.plot(thresholds, prices, "o-", color="#3b7ea1", label="values within theta are hidden")
axes.axhline(everything, color="#12394f", linestyle="--", label="everything secret")
axes.set(xscale="log", xlabel="theta, in dollars", ylabel="epsilon", ylim=(0, None))
axes.set_xticks(thresholds, [f"{theta:,}" for theta in thresholds])
axes.minorticks_off()
axes.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# ## What the policy protects
#
# The price is only half of the picture. Between values that are k hidden steps apart, an adversary's odds may change by e^(k epsilon). So a looser policy is
# cheaper *and* puts values further apart. Here are the odds after one release at this price, for a near and a far pair.

# %%
pairs = {"near": (1500, 1560), "far": (0, 2000)}
for theta, epsilon in zip(thresholds, prices, strict=True):
    declared = bf.Dataset(
        "loss",
        source="loss.parquet",
        domain=table,
        policy=bf.Policy({"capital_loss": bf.threshold(theta)}),
        epsilon="2",
    )
    odds = {
        name: bf.analysis.risk(declared, str(epsilon), *pair, attribute="capital_loss") for name, pair in pairs.items()
    }
    print(
        f"within {theta:>5}: near x {odds['near'].odds:<8.3g} far x {odds['far'].odds:.3g}   ({odds['far'].steps} steps)"
    )

# %% [markdown]
# Under *everything secret* both pairs would be at most one step apart. Choose the policy whose *near* pairs are those that people really need
# hidden, and whose price leaves room for later queries. Choose it without looking at answers: a choice that follows the data reveals something about
# the data.
#
# ## In words
#
# `explain` describes the declaration. Read it aloud before you put the policy in force.

# %%
for sentence in bf.explain(table, bf.Policy({"capital_loss": bf.threshold(100)})):
    print("-", sentence)
