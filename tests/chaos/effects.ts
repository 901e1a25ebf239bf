import { defineOperation, Type } from "../../src/operations/operation.ts";

/** Tools whose doings stand in a file outside the hub, one line each time: a line that comes twice is an effect that did. */
const file = Deno.env.get("CHAOS_EFFECTS") ?? "";
/** Asked between an effect and its result: the answer is late when a kill is due there. */
const gate = Deno.env.get("CHAOS_GATE") ?? "";

function note(kind: string, idempotencyKey: string): void {
  Deno.writeTextFileSync(file, `${kind} ${idempotencyKey}\n`, { append: true });
}

const input = Type.Object({ step: Type.Integer() });

export default [
  defineOperation({
    namespace: "chaos",
    name: "act",
    description: "Does something that must not be done twice",
    input,
    effect: "effect",
    async run({ step }, { idempotencyKey }) {
      note("effect", idempotencyKey);
      await (await fetch(gate)).body?.cancel();
      return `acted ${step}`;
    },
  }),
  defineOperation({
    namespace: "chaos",
    name: "put",
    description: "Does something that may be done again with the same key",
    input,
    effect: "idempotent",
    run({ step }, { idempotencyKey }) {
      note("idempotent", idempotencyKey);
      return `put ${step}`;
    },
  }),
  defineOperation({
    namespace: "chaos",
    name: "look",
    description: "Looks",
    input,
    effect: "pure",
    run: ({ step }) => `saw ${step}`,
  }),
];
