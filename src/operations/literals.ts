import { canonicalJson, type Json } from "../core/json.ts";

/** Compares values; the text of each is made once. */
export interface Literals {
  /** Whether one of some literals is this value. */
  has(choices: Json[], value: Json): boolean;
  hasRepeated(items: Json[]): boolean;
}

type Structure = Json & object;

/** Plain values, and the texts of others: `[1]` is a list, and a string too. */
interface Known {
  plain: ReadonlySet<Json>;
  texts: ReadonlySet<string>;
}

/** Makes the comparison of values for one check; `onText` hears how long the texts are that it makes. */
export function createLiterals(onText: (chars: number) => void): Literals {
  const textOf = once((value: Structure) => {
    const text = canonicalJson(value);
    onText(text.length);
    return text;
  });
  const knownOf = (values: Json[]): Known => {
    const plain = new Set<Json>();
    const texts = new Set<string>();
    for (const value of values) {
      if (isStructure(value)) texts.add(textOf(value));
      else plain.add(value);
    }
    return { plain, texts };
  };
  const choicesOf = once(knownOf);
  return {
    has(choices, value) {
      const { plain, texts } = choicesOf(choices);
      return isStructure(value) ? texts.size > 0 && texts.has(textOf(value)) : plain.has(value);
    },
    hasRepeated(items) {
      const { plain, texts } = knownOf(items);
      return plain.size + texts.size < items.length;
    },
  };
}

function isStructure(value: Json): value is Structure {
  return typeof value === "object" && value !== null;
}

function once<Of extends object, To>(make: (value: Of) => To): (value: Of) => To {
  const made = new WeakMap<Of, { to: To }>();
  return (value) => {
    let known = made.get(value);
    if (known === undefined) made.set(value, known = { to: make(value) });
    return known.to;
  };
}
