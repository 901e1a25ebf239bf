import fc from "fast-check";

/** How often a property runs, and with which seed. */
export interface PropertyOptions {
  runs?: number;
  /** Where it cannot be tried. */
  ignore?: boolean;
}

/**
 * Registers a property as a test. The seed comes from `FC_SEED` or is drawn anew; it is printed with a failure,
 * so that the same cases can be run again.
 */
export function property<T>(
  name: string,
  arbitrary: fc.Arbitrary<T>,
  check: (value: T) => void | Promise<void>,
  options: PropertyOptions = {},
): void {
  const fn = async () => {
    const given = Deno.env.get("FC_SEED");
    const seed = given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
    const details = await fc.check(
      fc.asyncProperty(arbitrary, async (value) => {
        await check(value);
      }),
      { seed, numRuns: options.runs ?? 200 },
    );
    if (details.failed) {
      throw new Error(`${name} fails with FC_SEED=${seed}\n${fc.defaultReportMessage(details)}`);
    }
  };
  Deno.test({ name, ignore: options.ignore ?? false, fn });
}
