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
  const tag = (pieces: TemplateStringsArray, ...values: unknown[]) =>
    answer({
      text: pieces.reduce((text, piece, index) => `${text}$${index}${piece}`),
      values,
    });
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
