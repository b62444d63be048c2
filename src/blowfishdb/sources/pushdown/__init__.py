"""One GROUP BY per question: what is asked of the engine, and how its answer becomes cells."""
