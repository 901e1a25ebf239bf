import { defineOperation, Type } from "../../src/operations/operation.ts";

/**
 * One operation, exported alone. Name this file in the configuration:
 *   "operations": { "modules": ["./examples/operations/dice.ts"] }
 */
export default defineOperation({
  namespace: "games",
  name: "roll_dice",
  description: "Rolls dice and gives each roll and the sum. Use it whenever chance should decide.",
  input: Type.Object({
    count: Type.Integer({ minimum: 1, maximum: 100, description: "How many dice" }),
    sides: Type.Optional(
      Type.Integer({
        minimum: 2,
        maximum: 1000,
        description: "Sides of each die, 6 when left out",
      }),
    ),
  }),
  output: Type.Object({ rolls: Type.Array(Type.Integer()), sum: Type.Integer() }),
  effect: "pure",
  polling: true,
  run({ count, sides = 6 }) {
    const rolls = Array.from({ length: count }, () => roll(sides));
    return { rolls, sum: rolls.reduce((sum, value) => sum + value, 0) };
  },
});

/** 1 to `sides`, each as likely: draws beyond the last full round are thrown away. */
function roll(sides: number): number {
  const limit = 2 ** 32 - 2 ** 32 % sides;
  const draw = new Uint32Array(1);
  for (;;) {
    const [value = 0] = crypto.getRandomValues(draw);
    if (value < limit) return 1 + value % sides;
  }
}
