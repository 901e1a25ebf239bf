-- Usage of embeddings, legacy completions and what is passed through: the kind names the part of the API. The hub alone
-- writes rows, and its type has the kinds: a check in the table would have to go before each one that is new.
alter table hub.usage drop constraint usage_kind_check;
