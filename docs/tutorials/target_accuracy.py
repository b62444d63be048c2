# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # Answering with a target accuracy
#
# Analysts know how wrong an answer may be; few know what an epsilon means. So state the accuracy, and let BlowfishDB find the least epsilon.

# %%
import os
import tempfile
from importlib.resources import files
from pathlib import Path

import matplotlib.pyplot as plt

import blowfishdb as bf
from blowfishdb.errors import BudgetExceeded

os.chdir(tempfile.mkdtemp())
Path("blowfish.toml").write_text('ledger = "sqlite:///census.ledger"\nmark = "census.mark"\n')
census = bf.Dataset(
    "census",
    source=str(files("blowfishdb") / "data/adult.parquet"),
    domain={"hours_per_week": bf.integers(1, 99, null=40), "age": bf.integers(17, 90, null=17)},
    policy=bf.Policy({"hours_per_week": bf.threshold(10), "age": bf.threshold(5)}),
    epsilon="1",
)
with bf.curate("blowfish.toml", by="cora") as curator:
    curator.add(census)
db = bf.connect("blowfish.toml", analyst="ana")
hours = db["census"].histogram(bf.col("hours_per_week").bins(11))

# %% [markdown]
# ## The curve of prices
#
# Previews are free, so draw the trade-off before you choose.

# %%
wanted = [20, 40, 80, 160, 320]
prices = [float(hours.preview(accuracy=alpha).epsilon) for alpha in wanted]
each = [float(hours.preview(accuracy=alpha, per_query=True).epsilon) for alpha in wanted]
figure, axes = plt.subplots(figsize=(7, 3.2))
axes.plot(wanted, prices, "o-", color="#3b7ea1", label="all nine bars together")
axes.plot(wanted, each, "s--", color="#c8553d", label="each bar on its own")
axes.set(xscale="log", yscale="log", xlabel="within", ylabel="epsilon")
axes.set_xticks(wanted, [str(alpha) for alpha in wanted])
axes.set_yticks([0.02, 0.05, 0.1, 0.2], ["0.02", "0.05", "0.1", "0.2"])
axes.minorticks_off()
axes.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# Twice the error is half the price. *Together* costs more than *each on its own*: nine bars are nine chances to be wrong.
#
# ## Ask

# %%
answer = hours.release(accuracy=80, confidence=0.95)
answer

# %% [markdown]
# Every bar is within 80, with probability 0.95, and usually much nearer. The charge is exactly the quoted epsilon:

# %%
answer.epsilon, float(db.budget("census").spent)

# %% [markdown]
# ## Too expensive
#
# A query above the budget is refused before anything is read. The message says what the budget can buy.

# %%
try:
    hours.release(accuracy=5)
except BudgetExceeded as refusal:
    print(refusal)

# %% [markdown]
# ## Check it
#
# Anybody who has the answer can check the certificate, without data and without a ledger. The check recomputes the query, the policy and the plan, and
# the greatest loss over all hidden moves.

# %%
answer.certificate.verify()
print("epsilon", answer.certificate.epsilon, "and the worst pair of cells is", answer.certificate.witness)
db.close()
