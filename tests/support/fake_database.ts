import type { Database, Sql } from "../../src/store/database.ts";

/** A statement as `src/store/` writes it: its text with `$1` for each value, and the values as they are. */
export interface Statement {
  text: string;
  values: readonly unknown[];
}

/** A database without Postgres: every statement is answered by `answer`, with rows or a rejection. */
export function createFakeDatabase(
  answer: (statement: Statement) => Promise<readonly unknown[]>,
): Database {
  const tag = (pieces: TemplateStringsArray, ...values: unknown[]) => {
    const text = pieces.reduce((text, piece, index) => `${text}$${index}${piece}`);
    // A part of a statement is a statement here too, and fails the whole.
    const parts = values.filter((value) => value instanceof Promise);
    if (parts.length === 0) return answer({ text, values });
    return Promise.all(parts).then(() => answer({ text, values }));
  };
  const sql = Object.assign(tag, { json: (value: unknown) => value }) as unknown as Sql;
  return {
    runs: sql,
    control: sql,
    read: sql,
    skipLocked: true,
    within: async (query) => await query,
    whyUnready: () => Promise.resolve(null),
    close: () => Promise.resolve(),
  };
}
