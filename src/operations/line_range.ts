import { Type } from "@sinclair/typebox";

/** The arguments of operations that show lines of a text: where to begin, and how many. */
export function lineRange({ most, byDefault = most }: { most: number; byDefault?: number }) {
  return {
    offset: Type.Optional(
      Type.Integer({ minimum: 1, description: "First line to read, counted from 1" }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: most,
        description: `Most lines to show, ${byDefault} when left out`,
      }),
    ),
  };
}
