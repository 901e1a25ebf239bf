import { type TSchema, Type } from "@sinclair/typebox";

/** What a list is made of, beside its items. */
interface ListOptions<Name extends string> {
  /** What its items' member was called before, which stays beside `data` for one version. */
  formerly?: Name;
}

const NEXT = Type.Union([Type.String(), Type.Null()], {
  description: "The next page begins with `after=` this; null on the last page",
});

/** The schema of a list's body: `data`, as OpenAI's lists have it, and how it goes on. */
export function listSchema<Item extends TSchema, Name extends string = never>(
  item: Item,
  { formerly }: ListOptions<Name> = {},
) {
  return Type.Object({
    object: Type.Literal("list"),
    data: Type.Array(item),
    has_more: Type.Boolean({ description: "Whether there is a next page" }),
    nextCursor: NEXT,
    ...formerly === undefined ? {} : {
      [formerly]: Type.Array(item, {
        deprecated: true,
        description: "The same as `data`, which takes its place in the next version",
      }),
    },
  });
}

/** The body of a list. A list that is no page has no next one. */
export function listBody<Item, Name extends string = never>(
  data: readonly Item[],
  { formerly, nextCursor = null }: ListOptions<Name> & { nextCursor?: string | null } = {},
) {
  return {
    object: "list" as const,
    data,
    has_more: nextCursor !== null,
    nextCursor,
    ...formerly === undefined ? {} : { [formerly]: data },
  };
}
