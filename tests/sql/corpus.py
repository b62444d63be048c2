"""Statements as people write them, over two tables; each with what it gives, or with words of the refusal.

Worded after what the guides of other private query engines, decision-support reports and dashboard tools ask:
"""

from __future__ import annotations

import blowfishdb as bf

VISITS = bf.domain(
    {
        "ward": bf.categorical(["A1", "A2", "B1", "B2"], null="A1", outside="A1"),
        "sex": bf.categorical(["f", "m"], null="f", outside="f"),
        "age": bf.integers(0, 99, null=0),
        "cost": bf.integers(0, 999, null=0),
        "nights": bf.integers(0, 13, null=0),
        "insured": bf.categorical([True, False], null=False, outside=False),
        "day": bf.dates("2023-01-01", "2024-12-31", null="2023-01-01", outside="clamp"),
    }
)
ADULT = bf.domain(
    {
        "age": bf.integers(17, 90, null=17),
        "sex": bf.categorical(["Female", "Male"], null="Female", outside="Female"),
        "hours_per_week": bf.integers(1, 99, null=40),
        "capital_loss": bf.integers(0, 4356, null=0),
    }
)

VISIT_QUESTIONS = """
count | SELECT COUNT(*) FROM visits
count | SELECT COUNT(1) FROM visits
count | SELECT COUNT(*) AS total FROM visits WHERE age >= 65
count | SELECT COUNT(*) FROM visits v WHERE v.age BETWEEN 18 AND 64 AND v.sex = 'f'
count | SELECT COUNT(*) FROM visits WHERE NOT (ward = 'A1' OR ward = 'A2')
count | SELECT COUNT(*) FROM visits WHERE ward LIKE 'A%'
count | SELECT COUNT(*) FROM visits WHERE ward ILIKE '%1' AND insured = TRUE
count | SELECT COUNT(*) FROM visits WHERE ward NOT LIKE 'A_'
count | SELECT COUNT(*) FROM visits WHERE ward NOT LIKE 'A1'
count | SELECT COUNT(*) FROM visits WHERE ward NOT ILIKE 'b%' AND ward NOT LIKE '%1' AND sex = 'f'
count | SELECT COUNT(*) FROM visits WHERE day >= DATE '2024-01-01'
count | SELECT COUNT(*) FROM visits WHERE day BETWEEN '2023-03-01' AND '2023-03-31'
count | SELECT COUNT(*) FROM (SELECT * FROM visits WHERE sex = 'f') WHERE age > 40
count | WITH w AS (SELECT * FROM visits WHERE nights > 0) SELECT COUNT(*) FROM w
count | SELECT COUNT(*) FROM (SELECT age AS years FROM visits) t WHERE years < 18
histogram | SELECT ward, COUNT(*) FROM visits GROUP BY ward
histogram | SELECT ward, COUNT(*) AS n FROM visits GROUP BY 1
histogram | SELECT ward, sex, COUNT(*) FROM visits GROUP BY ward, sex
histogram | SELECT COUNT(*), ward FROM visits GROUP BY ALL
histogram | SELECT age, COUNT(*) FROM visits GROUP BY age ORDER BY age
histogram | SELECT bin(age, 5), COUNT(*) FROM visits GROUP BY bin(age, 5)
histogram | SELECT age / 10 * 10 AS decade, COUNT(*) FROM visits GROUP BY decade
histogram | SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) FROM visits GROUP BY 1
histogram | SELECT FLOOR(age / 10.0) AS decade, COUNT(*) FROM visits GROUP BY 1
histogram | SELECT age - age % 10 AS decade, COUNT(*) FROM visits GROUP BY decade
histogram | SELECT CAST(age / 20 AS INT) * 20 AS step, COUNT(*) FROM visits GROUP BY step
histogram | SELECT WIDTH_BUCKET(cost, 0, 1000, 10) AS bucket, COUNT(*) FROM visits GROUP BY bucket
histogram | SELECT bin_edges(age, 0, 18, 65, 100), COUNT(*) FROM visits GROUP BY 1
histogram | SELECT CASE WHEN age < 18 THEN 'minor' ELSE 'adult' END AS life, COUNT(*) FROM visits GROUP BY life
histogram | SELECT CASE ward WHEN 'A1' THEN 'x' WHEN 'A2' THEN 'x' ELSE 'y' END AS w, COUNT(*) FROM visits GROUP BY w
histogram | SELECT CASE WHEN age < 18 THEN 1 WHEN age < 65 THEN 2 ELSE 3 END AS band, COUNT(*) FROM visits GROUP BY band
histogram | SELECT CASE WHEN ward IN ('A1', 'B1') THEN 'first' END AS floor, COUNT(*) FROM visits GROUP BY floor
histogram | SELECT DATE_TRUNC('month', day), COUNT(*) FROM visits GROUP BY 1
histogram | SELECT DATE_TRUNC('quarter', day) AS q, COUNT(*) AS n FROM visits GROUP BY q ORDER BY q
histogram | SELECT DATE_TRUNC('week', day) AS w, COUNT(*) FROM visits WHERE day >= '2024-01-01' GROUP BY w
histogram | SELECT EXTRACT(YEAR FROM day) AS year, COUNT(*) FROM visits GROUP BY year
histogram | SELECT EXTRACT(MONTH FROM day) AS month, COUNT(*) FROM visits GROUP BY month
histogram | SELECT EXTRACT(QUARTER FROM day) AS q, COUNT(*) FROM visits GROUP BY q
histogram | SELECT MONTH(day) AS m, COUNT(*) FROM visits GROUP BY m ORDER BY COUNT(*) DESC
histogram | SELECT YEAR(day), COUNT(*) FROM visits GROUP BY 1
histogram | SELECT DATE_PART('dow', day) AS weekday, COUNT(*) FROM visits GROUP BY weekday
histogram | SELECT STRFTIME(day, '%Y-%m') AS month, COUNT(*) FROM visits GROUP BY month
histogram | SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC
histogram | SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2
histogram | SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY 2 DESC LIMIT 2 OFFSET 1
histogram | SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING COUNT(*) > 100
histogram | SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) BETWEEN 50 AND 500
histogram | SELECT ward, sex, COUNT(*) AS n FROM visits GROUP BY ward, sex HAVING COUNT(*) >= 20 OR COUNT(*) < 5
histogram | SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1
histogram | SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 100
histogram | SELECT * FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t WHERE n > 10 ORDER BY n LIMIT 3
histogram | WITH t AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT * FROM t ORDER BY n DESC
histogram | SELECT insured, COUNT(*) FROM visits GROUP BY insured
histogram | SELECT decade, COUNT(*) FROM (SELECT age / 10 * 10 AS decade FROM visits) GROUP BY decade
histogram | SELECT ward, COUNT(*) AS n FROM (SELECT ward FROM visits) GROUP BY ward ORDER BY n
histogram | SELECT ward AS w, COUNT(*) AS n FROM (SELECT ward FROM visits) GROUP BY w HAVING n > 1000
histogram | SELECT ward, COUNT(*) n FROM visits GROUP BY ward ORDER BY n DESC FETCH FIRST 3 ROWS ONLY
histogram | SELECT TO_CHAR(day, 'YYYY-MM') AS month, COUNT(*) FROM visits GROUP BY 1
histogram | SELECT LEFT(ward, 1) AS building, COUNT(*) FROM visits GROUP BY building
histogram | SELECT UPPER(ward) AS w, COUNT(*) FROM visits WHERE STARTS_WITH(ward, 'A') GROUP BY w
count | SELECT COUNT(*) FROM visits WHERE NOT insured AND EXTRACT(YEAR FROM day) = 2024
count | SELECT COUNT(*) FROM visits WHERE insured AND YEAR(day) < 2024
sum | SELECT SUM(cost) FROM visits
sum | SELECT SUM(nights) FROM visits WHERE ward = 'A1'
sum | SELECT ROUND(SUM(cost), 2) FROM visits
mean | SELECT AVG(cost) FROM visits
mean | SELECT AVG(age) AS mean_age FROM visits WHERE sex = 'f'
mean | SELECT ROUND(AVG(age), 1) FROM visits
mean | SELECT CAST(AVG(cost) AS INT) FROM visits WHERE insured = TRUE
mean | SELECT SUM(cost) / COUNT(*) FROM visits
quantiles | SELECT MEDIAN(age) FROM visits
quantiles | SELECT QUANTILES(cost, 0.1, 0.5, 0.9) FROM visits
quantiles | SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY cost) FROM visits
quantiles | SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY age) FROM visits
quantiles | SELECT APPROX_QUANTILE(cost, 0.95) FROM visits
quantiles | SELECT QUANTILE_CONT(age, 0.5) FROM visits WHERE sex = 'm'
cdf | SELECT CDF(age) FROM visits
cdf | SELECT CDF(bin(cost, 50)) FROM visits WHERE ward = 'B1'
table | SELECT COUNT(*), SUM(cost) FROM visits
table | SELECT COUNT(*), SUM(cost), AVG(cost) FROM visits
table | SELECT AVG(age), AVG(nights) FROM visits
table | SELECT COUNT(*) AS n, AVG(age) AS age, STDDEV(age) AS spread FROM visits
table | SELECT ward, SUM(cost) FROM visits GROUP BY ward
table | SELECT ward, AVG(cost) FROM visits GROUP BY ward
table | SELECT ward, sex, AVG(cost) FROM visits GROUP BY ward, sex
table | SELECT ward, COUNT(*), SUM(cost), AVG(cost) FROM visits GROUP BY ward
table | SELECT ward, COUNT(*), AVG(cost), STDDEV(cost) FROM visits WHERE age >= 18 GROUP BY ward
table | SELECT ward, COUNT(*) AS n, AVG(nights) AS stay FROM visits GROUP BY ward ORDER BY stay DESC
table | SELECT ward, AVG(cost) AS mean FROM visits GROUP BY ward HAVING COUNT(*) > 100
table | SELECT ward, AVG(cost) FROM visits GROUP BY ward HAVING AVG(cost) > 200 ORDER BY 2 DESC LIMIT 1
table | SELECT ward, SUM(cost) AS total FROM visits GROUP BY ward ORDER BY total DESC LIMIT 2
table | SELECT ward, VARIANCE(nights), VAR_POP(nights) FROM visits GROUP BY ward
table | SELECT sex, STDDEV_SAMP(age), STDDEV_POP(age) FROM visits GROUP BY sex
table | SELECT sex, MEDIAN(age) FROM visits GROUP BY sex
table | SELECT sex, QUANTILES(nights, 0.25, 0.5, 0.75) AS q FROM visits GROUP BY sex
table | SELECT sex, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY nights) AS median FROM visits GROUP BY sex
table | SELECT sex, COUNT(*), AVG(nights), MEDIAN(nights) FROM visits GROUP BY sex
table | SELECT sex, CDF(nights) FROM visits GROUP BY sex
table | SELECT ward, CDF(age) FROM visits WHERE sex = 'f' GROUP BY ward
table | SELECT COUNT(cost) FROM visits
table | SELECT ward, COUNT(cost), COUNT(*) FROM visits GROUP BY ward
table | SELECT COUNT(*) FILTER (WHERE age < 18) AS minors FROM visits
table | SELECT ward, COUNT(*) FILTER (WHERE sex = 'f') AS women, COUNT(*) AS n FROM visits GROUP BY ward
table | SELECT ward, COUNT(*) FILTER (WHERE sex = 'f' AND age > 60) FROM visits GROUP BY ward
table | SELECT ward, COUNT(*) FILTER (WHERE sex = 'f' OR insured = TRUE) FROM visits GROUP BY ward
table | SELECT ward, SUM(cost) FILTER (WHERE insured = TRUE) AS paid FROM visits GROUP BY ward
table | SELECT ward, AVG(nights) FILTER (WHERE age >= 65) AS old_stay FROM visits GROUP BY ward
table | SELECT COUNT_IF(age < 18), COUNT(*) FROM visits
table | SELECT SUM(CASE WHEN sex = 'f' THEN 1 ELSE 0 END) AS women, COUNT(*) FROM visits
table | SELECT ward, SUM(CASE WHEN insured = TRUE THEN cost ELSE 0 END) AS paid FROM visits GROUP BY ward
table | SELECT COUNT(CASE WHEN nights > 3 THEN 1 END) AS long FROM visits
table | SELECT SUM(IF(nights = 0, 1, 0)) AS outpatients, COUNT(*) FROM visits
table | SELECT ward, AVG(CASE WHEN nights > 3 THEN 1.0 ELSE 0 END) AS long FROM visits GROUP BY ward
table | SELECT ward, AVG(CASE WHEN nights > 3 THEN 0 ELSE 1 END) AS short FROM visits GROUP BY ward
table | SELECT ward, AVG(CASE WHEN age >= 65 THEN nights END) AS stay FROM visits GROUP BY ward
table | SELECT ward, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM visits GROUP BY ward
table | SELECT ward, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct FROM visits GROUP BY ward ORDER BY pct DESC
table | SELECT ward, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct, COUNT(*) FROM visits GROUP BY ward
table | SELECT ward, sex, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER (PARTITION BY ward) AS p FROM visits GROUP BY ward, sex
table | SELECT sex, 100.0 * COUNT(*) FILTER (WHERE nights = 0) / COUNT(*) AS outpatients FROM visits GROUP BY sex
table | SELECT 1.0 * COUNT(*) FILTER (WHERE insured = TRUE) / NULLIF(COUNT(*), 0) AS insured FROM visits
table | SELECT ward, SUM(cost) / COUNT(*) AS mean FROM visits GROUP BY ward
table | SELECT SUM(nights * cost) AS total, COUNT(*) FROM visits
table | SELECT sex, SUM(nights * age) FROM visits GROUP BY sex
table | SELECT sex, AVG(nights * age) FROM visits GROUP BY sex
table | SELECT age / 10 * 10 AS decade, COUNT(*) AS n, AVG(nights) AS stay FROM visits GROUP BY decade ORDER BY decade
table | SELECT age / 10 * 10 AS decade, AVG(age) FROM visits GROUP BY decade
table | SELECT CASE WHEN age < 65 THEN 'young' ELSE 'old' END AS life, AVG(nights), COUNT(*) FROM visits GROUP BY life
table | SELECT DATE_TRUNC('quarter', day) AS q, COUNT(*), AVG(nights) FROM visits GROUP BY q
table | SELECT EXTRACT(MONTH FROM day) AS m, SUM(nights) AS nights FROM visits GROUP BY m ORDER BY nights DESC LIMIT 3
table | WITH a AS (SELECT ward, cost FROM visits WHERE age >= 18) SELECT ward, AVG(cost) FROM a GROUP BY ward
table | SELECT ward, AVG(c) FROM (SELECT ward, cost AS c, age FROM visits) x WHERE age > 30 GROUP BY ward
table | SELECT ward, SUM(x) AS x FROM (SELECT ward, cost AS x FROM visits) GROUP BY ward ORDER BY x DESC LIMIT 2
table | SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY ward OPTIONS (within_n = 30, within_m = 5)
table | SELECT ward, sex, COUNT(*), AVG(nights), SUM(nights) FROM visits WHERE day >= '2024-01-01' GROUP BY ward, sex
table | SELECT sex, SUM(cost * (1 - nights / 100)) AS discounted FROM visits GROUP BY sex
table | SELECT SUM(2 * cost) AS twice, SUM(cost / 100.0) AS hundreds FROM visits
table | SELECT ward, COUNT(*) AS n FROM visits WHERE sex = 'f' GROUP BY ward OPTIONS (within_n = '5 %')
table | SELECT ward FROM visits GROUP BY ward ORDER BY AVG(cost) DESC LIMIT 2
table | SELECT SUBSTRING(ward, 2, 1) AS floor, COUNT(*), AVG(cost) FROM visits GROUP BY floor
table | SELECT IF(age >= 65, 'senior', 'other') AS g, AVG(nights) FROM visits GROUP BY g
table | SELECT ward, SUM(CASE WHEN insured THEN 1 ELSE 0 END) AS paid FROM visits GROUP BY ward
table | SELECT ward, COALESCE(SUM(cost), 0) AS total FROM visits GROUP BY ward
histogram | SELECT COALESCE(ward, 'none') AS w, COUNT(*) FROM visits GROUP BY w
histogram | SELECT COALESCE(sex, 'unknown') AS s, COALESCE(ward, 'none') AS w, COUNT(*) FROM visits GROUP BY s, w
table | SELECT COALESCE(nights, 0) AS n, AVG(cost) FROM visits GROUP BY n
count | SELECT COUNT(*) FROM visits WHERE COALESCE(nights, 0) > 3
table | SELECT COALESCE(ward, 'none') AS w, AVG(cost), SUM(nights) FROM visits GROUP BY w
count | SELECT COUNT(*) FROM visits WHERE COALESCE(ward, 'none') IN ('none', 'A1')
table | SELECT CASE WHEN ward = 'A1' THEN 'A1' ELSE 'elsewhere' END AS place, AVG(cost) FROM visits GROUP BY place
table | SELECT SUM(cost) / 1000.0 AS thousands FROM visits
table | SELECT ward, AVG(cost) * 12 AS yearly FROM visits GROUP BY ward
table | SELECT sex, PERCENTILE_CONT(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY nights) AS q FROM visits GROUP BY sex
table | SELECT ward, APPROX_COUNT_DISTINCT(patient) AS patients FROM visits GROUP BY ward
count | SELECT COUNT(*) FROM visits WHERE cost > 2 * 100
table | SELECT ward, SUM(age > 65) AS old, AVG(age > 65) AS share FROM visits GROUP BY ward
table | SELECT COUNT(*) * 2 FROM visits
table | SELECT COUNT(*) / 365.0 AS per_day FROM visits
table | SELECT ward, SUM(cost) * 1.0 / SUM(nights) AS per_night FROM visits GROUP BY ward ORDER BY per_night DESC
table | SELECT ward, SUM(cost) / NULLIF(SUM(nights), 0.0) AS per_night FROM visits GROUP BY ward
table | SELECT SUM(cost) - 100 * SUM(nights) AS margin FROM visits
table | SELECT AVG(cost) FILTER (WHERE sex = 'f') - AVG(cost) FILTER (WHERE sex = 'm') AS gap FROM visits
table | SELECT ward, 100.0 * SUM(cost) / SUM(SUM(cost)) OVER () AS pct FROM visits GROUP BY ward ORDER BY pct LIMIT 2
table | SELECT ward, sex, 1.0 * SUM(cost) / SUM(SUM(cost)) OVER (PARTITION BY ward) AS p FROM visits GROUP BY ward, sex
table | SELECT ward, COUNT(*) FILTER (WHERE sex = 'f') * 1.0 / COUNT(*) FILTER (WHERE age < 30) FROM visits GROUP BY 1
table | SELECT COUNT(*) FILTER (WHERE YEAR(day) = 2024) - COUNT(*) FILTER (WHERE YEAR(day) = 2023) AS growth FROM visits
table | SELECT ward, AVG(age) + 1 AS next_year, COUNT(*) AS n FROM visits GROUP BY ward HAVING AVG(age) + 1 > 40
table | SELECT age > 40 AS older, AVG(nights) FROM visits GROUP BY age > 40
histogram | SELECT sex = 'f' AS woman, COUNT(*) FROM visits GROUP BY 1
histogram | SELECT ward IN ('A1', 'A2') AS a, COUNT(*) FROM visits GROUP BY a
histogram | SELECT ward, COUNT(*) FROM visits WHERE LOWER(ward) = 'a1' GROUP BY ward
count | SELECT COUNT(*) FROM visits WHERE MONTH(day) = 3
count | SELECT COUNT(*) FROM visits WHERE EXTRACT(MONTH FROM day) IN (12, 1, 2)
count | SELECT COUNT(*) FROM visits WHERE EXTRACT(DOW FROM day) IN (0, 6) AND QUARTER(day) <> 1
count | SELECT COUNT(*) FROM visits WHERE DATE_TRUNC('month', day) = DATE '2024-03-01'
count | SELECT COUNT(*) FROM visits WHERE day >= DATE '2024-03-31' - INTERVAL '1 month'
count | SELECT COUNT(*) FROM visits WHERE LEFT(ward, 1) = 'B'
count | SELECT COUNT(*) FROM visits WHERE 1 = 1 AND insured IS NOT TRUE
count | SELECT COUNT(*) FROM visits WHERE CAST(day AS DATE) >= DATE '2024-03-01'
histogram | SELECT STRFTIME('%Y-%m', day) AS month, COUNT(*) FROM visits GROUP BY month
histogram | WITH w AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT w.ward, w.n FROM w WHERE n > 10
sum | SELECT SUM(COALESCE(cost, 0)) FROM visits
table | SELECT ward, SUM(insured::int) AS insured, COUNT(*) AS n FROM visits GROUP BY ward
table | SELECT ward, AVG(CAST(insured AS INTEGER)) AS rate FROM visits GROUP BY ward ORDER BY rate DESC
table | SELECT COUNT(DISTINCT patient) FROM visits
table | SELECT COUNT(DISTINCT patient) AS patients FROM visits WHERE age >= 65
table | SELECT ward, COUNT(DISTINCT patient) AS patients FROM visits GROUP BY ward ORDER BY patients DESC
table | SELECT ward, COUNT(*) AS visits, COUNT(DISTINCT patient) AS patients FROM visits GROUP BY ward
""".strip()

ADULT_QUESTIONS = """
histogram | SELECT sex, COUNT(*) FROM adult GROUP BY sex
histogram | SELECT hours_per_week, COUNT(*) FROM adult WHERE age < 30 GROUP BY hours_per_week
histogram | SELECT age / 5 * 5 AS band, COUNT(*) FROM adult GROUP BY band
mean | SELECT AVG(capital_loss) FROM adult
mean | SELECT AVG(hours_per_week) FROM adult WHERE sex = 'Female'
quantiles | SELECT QUANTILES(hours_per_week, 0.25, 0.5, 0.75) FROM adult
table | SELECT sex, AVG(hours_per_week) AS hours, AVG(age) AS age FROM adult GROUP BY sex
table | SELECT sex, COUNT(*), AVG(capital_loss), SUM(capital_loss) FROM adult GROUP BY sex
table | SELECT sex, 100.0 * COUNT(*) FILTER (WHERE hours_per_week > 40) / COUNT(*) AS overtime FROM adult GROUP BY sex
table | SELECT age / 10 * 10 AS decade, AVG(hours_per_week) AS hours FROM adult GROUP BY decade HAVING COUNT(*) > 1000
table | SELECT sex, STDDEV(hours_per_week), AVG(hours_per_week) FROM adult WHERE age BETWEEN 25 AND 54 GROUP BY sex
""".strip()

REFUSALS = """
Rows are never shown | SELECT * FROM visits
Rows are never shown | SELECT ward, age FROM visits WHERE cost > 900
Rows are never shown | SELECT * FROM visits LIMIT 10
QUANTILES | SELECT MAX(cost) FROM visits
QUANTILES | SELECT ward, MIN(age) FROM visits GROUP BY ward
cannot be grouped | SELECT DAYNAME(day) AS d, COUNT(*) FROM visits GROUP BY d
cannot be grouped | SELECT ROUND(age, -1), COUNT(*) FROM visits GROUP BY 1
without PERCENT | SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY 2 FETCH FIRST 3 PERCENT ROWS ONLY
a number such as 2024 | SELECT COUNT(*) FROM visits WHERE YEAR(day) = 'MMXXIV'
whole numbers from 1 | SELECT LEFT(ward, 0), COUNT(*) FROM visits GROUP BY 1
lists no texts | SELECT LEFT(age, 1) AS a, COUNT(*) FROM visits GROUP BY a
is an attribute, no condition | SELECT COUNT(*) FROM visits WHERE sex
GROUP BY the attribute | SELECT COUNT(DISTINCT ward) FROM visits
declared by the curator | SELECT COUNT(*) FROM visits JOIN patients USING (id)
UNION | SELECT COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM visits
CDF | SELECT ward, ROW_NUMBER() OVER (ORDER BY cost) FROM visits
CDF | SELECT day, SUM(cost) OVER (ORDER BY day) FROM visits
DISTINCT | SELECT DISTINCT ward FROM visits
outer query | SELECT AVG(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)
not known here | SELECT CORR(age, cost) FROM visits
not known here | SELECT STRING_AGG(ward, ',') FROM visits
one attribute | SELECT CASE WHEN age < 18 AND sex = 'f' THEN 'girl' END AS g, COUNT(*) FROM visits GROUP BY g
only plain groups|ROLLUP | SELECT ward, COUNT(*) FROM visits GROUP BY ROLLUP (ward)
not 'DELETE' | DELETE FROM visits
GROUP BY x ORDER BY | SELECT MODE() WITHIN GROUP (ORDER BY ward) FROM visits
write the day | SELECT COUNT(*) FROM visits WHERE day >= CURRENT_DATE - INTERVAL '7 days'
may be 0 | SELECT AVG(cost) / AVG(nights) FROM visits
no declared value | SELECT COUNT(*) FROM visits WHERE MONTH(day) = 13
two columns | SELECT SUM(cost + nights) FROM visits
divided by numbers | SELECT SUM(cost / nights) FROM visits
one group: DATE_TRUNC | SELECT YEAR(day) AS y, MONTH(day) AS m, COUNT(*) FROM visits GROUP BY y, m
no declared value | SELECT COUNT(*) FROM visits WHERE ward LIKE 'Z%'
what is selected | SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY CASE WHEN ward = 'B1' THEN 0 ELSE 1 END
what is selected | SELECT nights, COUNT(*) FROM visits GROUP BY nights ORDER BY nights > 2 DESC, nights
what is selected | SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY LOWER(ward)
what is selected | SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY -COUNT(*)
what is selected | SELECT age > 40 AS old, COUNT(*) FROM visits GROUP BY old ORDER BY age
what is selected | SELECT age AS ward, COUNT(*) FROM visits GROUP BY age ORDER BY visits.ward
compares an aggregate | SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING COUNT(*) * 2 > 300
low end first | SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING COUNT(*) BETWEEN SYMMETRIC 500 AND 10
LIMIT takes one number | SELECT ward, COUNT(*) FROM visits GROUP BY ward LIMIT 1 BY ward
numbers as they are | SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING ROUND(COUNT(*), -2) >= 200
numbers as they are | SELECT ward, ROUND(AVG(cost)) AS m FROM visits GROUP BY ward HAVING m = 500
numbers as they are | SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING CAST(COUNT(*) / 100 AS INTEGER) = 2
two columns are called 'count' | SELECT ward, COUNT(*) / 2.0 AS count FROM visits GROUP BY ward HAVING COUNT(*) > 150
two columns are called 'count' | SELECT ward, COUNT(*) * 2 AS count, COUNT(*) + 1 AS b FROM visits GROUP BY ward
two columns are called 'ward' | SELECT ward, COUNT(*) AS ward, SUM(cost) FROM visits GROUP BY ward ORDER BY 1
has two columns 'nights' | SELECT COUNT(*) FROM (SELECT *, age AS nights FROM visits) WHERE nights > 3
has two columns 'ward' | WITH v AS (SELECT *, UPPER(sex) AS Ward FROM visits) SELECT ward, COUNT(*) FROM v GROUP BY ward
""".strip()


def lines(text: str) -> list[tuple[str, str]]:
    """What each statement gives, and the statement."""
    parts = (line.partition(" | ") for line in text.split("\n"))
    return [(given.strip(), statement.strip()) for given, _, statement in parts]
