import { defineOperation, type Operation, Type } from "../operation.ts";
import type { SearchTools } from "../search_tools.ts";

/** The full name of the operation. */
export const FIND_TOOLS = "hub.find_tools";

const DEFAULT_FOUND = 10;
const MAX_FOUND = 20;
const MAX_DESCRIPTION_CHARS = 300;

/** `hub.find_tools`: for an agent that has more tools than its model is shown. `toWire` gives the name to call one by. */
export function createFindTools(
  { search, toWire }: { search: SearchTools; toWire: (name: string) => string },
): Operation {
  return defineOperation({
    namespace: "hub",
    name: "find_tools",
    description:
      "You see some of your tools. This finds others by words for what is to be done, or by parts of their names, " +
      "best first. What is found can be called from the next step on.",
    input: Type.Object({
      query: Type.String({ minLength: 1, maxLength: 500, description: "What the tool is to do" }),
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: MAX_FOUND,
          description: `Most tools to find, ${DEFAULT_FOUND} when left out`,
        }),
      ),
    }),
    output: Type.Object({
      tools: Type.Array(Type.Object({ name: Type.String(), description: Type.String() })),
    }),
    effect: "pure",
    inRunsOnly: true,
    run: ({ query, limit = DEFAULT_FOUND }) => ({
      tools: search(query, limit).map(({ name, description }) => ({
        name: toWire(name),
        description: description.length <= MAX_DESCRIPTION_CHARS
          ? description
          : `${description.slice(0, MAX_DESCRIPTION_CHARS).toWellFormed()}…`,
      })),
    }),
  });
}
