import { defineOperation, type Operation, Type } from "../operation.ts";
import { evaluateArithmetic, FUNCTION_NAMES } from "./arithmetic.ts";

/** `hub.calculate`: arithmetic, since models are poor at it. Nothing is ever evaluated as code. */
export function createCalculate(): Operation {
  return defineOperation({
    namespace: "hub",
    name: "calculate",
    description: "Evaluates an arithmetic expression exactly as written and gives the number. " +
      "Knows + - * / % (remainder) ^ (power), parentheses, the constants pi and e, and the functions " +
      `${FUNCTION_NAMES.join(", ")}. Angles are in radians, log is natural. ` +
      "Use it for every calculation that is not trivial.",
    input: Type.Object({
      expression: Type.String({
        minLength: 1,
        maxLength: 2000,
        description: 'For example "(1299 * 1.2 - 15) / 3" or "sqrt(3^2 + 4^2)"',
      }),
    }),
    output: Type.Object({
      expression: Type.String(),
      result: Type.Number(),
      note: Type.Optional(Type.String()),
    }),
    effect: "pure",
    run({ expression }) {
      const result = evaluateArithmetic(expression);
      if (Number.isSafeInteger(result) || Math.abs(result) < Number.MAX_SAFE_INTEGER) {
        return { expression, result };
      }
      return { expression, result, note: "Rounded: the number is too large to be exact" };
    },
  });
}
