"""Tools as everybody knows them, whatever protocol offers them."""
