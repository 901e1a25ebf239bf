import { defineOperation, Type } from "../../src/operations/operation.ts";

/** Factors to the first unit of each kind. */
const KINDS: Record<string, Record<string, number>> = {
  length: { m: 1, km: 1000, cm: 0.01, mm: 0.001, mi: 1609.344, yd: 0.9144, ft: 0.3048, in: 0.0254 },
  mass: { kg: 1, g: 0.001, mg: 1e-6, t: 1000, lb: 0.45359237, oz: 0.028349523125 },
  time: { s: 1, min: 60, h: 3600, d: 86_400 },
};

const Unit = Type.Union(
  Object.values(KINDS).flatMap((units) => Object.keys(units)).map((unit) => Type.Literal(unit)),
);

const convert = defineOperation({
  namespace: "units",
  name: "convert",
  description: "Converts an amount between units of length, mass or time.",
  input: Type.Object({ amount: Type.Number(), from: Unit, to: Unit }),
  output: Type.Object({ amount: Type.Number(), unit: Type.String() }),
  effect: "pure",
  run({ amount, from, to }) {
    for (const units of Object.values(KINDS)) {
      const [source, target] = [units[from], units[to]];
      if (source === undefined || target === undefined) continue;
      return { amount: Number((amount * source / target).toPrecision(12)), unit: to };
    }
    // The message of an error is what the model reads.
    throw new Error(`${from} and ${to} measure different things`);
  },
});

const list = defineOperation({
  namespace: "units",
  name: "list",
  description: "Lists the units that units.convert knows, by kind.",
  input: Type.Object({}),
  effect: "pure",
  run: () =>
    Object.entries(KINDS).map(([kind, units]) => `${kind}: ${Object.keys(units).join(", ")}`)
      .join("\n"),
});

/** Several operations of one module: export them as an array. */
export default [convert, list];
