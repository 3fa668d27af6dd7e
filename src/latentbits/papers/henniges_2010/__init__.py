"""Henniges, Puertas, Bornschein, Eggert & Lücke (2010), Binary sparse coding."""
