import { defineOperation, Type } from "../src/operations/operation.ts";

/** The tool that the mock's model calls. */
export default defineOperation({
  namespace: "get",
  name: "weather",
  description: "Weather in a city",
  input: Type.Object({ city: Type.String() }),
  output: Type.Object({ city: Type.String(), celsius: Type.Number() }),
  effect: "pure",
  run: ({ city }) => ({ city, celsius: 21 }),
});
