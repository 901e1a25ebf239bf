import { Type } from "../operation.ts";

/** Group of the operations. */
export const NAMESPACE = "file";

/** A path, said to be what it is for. */
export const Path = (description: string) =>
  Type.String({ minLength: 1, maxLength: 4096, description });

/** The hash that `file.read` tells. */
export const Hash = Type.Optional(Type.String({
  pattern: "^[0-9a-f]{16}$",
  description:
    "The hash that file.read told; refused if the file has changed since. Leave it out not to check",
}));

/** Most entries of a result. */
export const Limit = (most: number, usual: number) =>
  Type.Optional(Type.Integer({
    minimum: 1,
    maximum: most,
    description: `Most to show, ${usual} when left out`,
  }));
