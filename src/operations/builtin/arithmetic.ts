import { HubError } from "../../core/error.ts";

type Token =
  | { kind: "number"; value: number; at: number }
  | { kind: "name"; text: string; at: number }
  | { kind: "symbol"; text: string; at: number };

const MAX_DEPTH = 100;

const CONSTANTS: ReadonlyMap<string, number> = new Map([["pi", Math.PI], ["e", Math.E]]);

interface ArithmeticFunction {
  least: number;
  most: number;
  run(...values: number[]): number;
}

const one = (run: (value: number) => number): ArithmeticFunction => ({ least: 1, most: 1, run });
const many = (run: (...values: number[]) => number): ArithmeticFunction => ({
  least: 1,
  most: 100,
  run,
});

const FUNCTIONS: ReadonlyMap<string, ArithmeticFunction> = new Map([
  ["abs", one(Math.abs)],
  ["ceil", one(Math.ceil)],
  ["floor", one(Math.floor)],
  ["round", { least: 1, most: 2, run: roundTo }],
  ["trunc", one(Math.trunc)],
  ["sign", one(Math.sign)],
  ["sqrt", one(Math.sqrt)],
  ["cbrt", one(Math.cbrt)],
  ["exp", one(Math.exp)],
  ["log", one(Math.log)],
  ["log2", one(Math.log2)],
  ["log10", one(Math.log10)],
  ["sin", one(Math.sin)],
  ["cos", one(Math.cos)],
  ["tan", one(Math.tan)],
  ["asin", one(Math.asin)],
  ["acos", one(Math.acos)],
  ["atan", one(Math.atan)],
  ["min", many(Math.min)],
  ["max", many(Math.max)],
  ["sum", many((...values) => values.reduce((total, value) => total + value, 0))],
  ["mean", many((...values) => values.reduce((total, value) => total + value, 0) / values.length)],
]);

/** Names of the functions an expression may call. */
export const FUNCTION_NAMES: readonly string[] = [...FUNCTIONS.keys()];

/**
 * The value of an arithmetic expression: `+ - * / % ^`, parentheses, constants, functions. `^` binds tightest and to
 * the right, a sign in front of a power applies to the whole power, `%` is the remainder with the sign of the left
 * side. The last bits of binary rounding are rounded away (15 significant digits).
 * Throws `invalid_request` that says what is wrong and where (places count from 1).
 */
export function evaluateArithmetic(expression: string): number {
  const parser = new Parser(tokenize(expression), expression.length);
  const value = parser.parse();
  if (!Number.isFinite(value)) throw wrong("The result is not a finite number");
  return Number.isInteger(value) ? value : Number(value.toPrecision(15));
}

function wrong(message: string): HubError {
  return new HubError("invalid_request", message);
}

function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  const pattern =
    /\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([a-zA-Z_]\w*)|(\*\*|[-+*/%^(),×÷−·]))/y;
  const end = text.trimEnd().length;
  while (pattern.lastIndex < end) {
    const from = pattern.lastIndex;
    const match = pattern.exec(text);
    if (match === null) {
      const at = from + (/^\s*/.exec(text.slice(from))?.[0].length ?? 0);
      const char = String.fromCodePoint(text.codePointAt(at) ?? 0);
      throw wrong(`Character ${JSON.stringify(char)} at ${at + 1} is not part of arithmetic`);
    }
    const [whole, number, name, symbol] = match;
    const at = from + whole.length - whole.trimStart().length + 1;
    if (number !== undefined) tokens.push({ kind: "number", value: Number(number), at });
    else if (name !== undefined) tokens.push({ kind: "name", text: name.toLowerCase(), at });
    else if (symbol !== undefined) tokens.push({ kind: "symbol", text: plainSymbol(symbol), at });
  }
  return tokens;
}

function plainSymbol(symbol: string): string {
  switch (symbol) {
    case "**":
      return "^";
    case "×":
    case "·":
      return "*";
    case "÷":
      return "/";
    case "−":
      return "-";
    default:
      return symbol;
  }
}

function roundTo(value: number, digits = 0): number {
  if (!Number.isInteger(digits) || digits < 0 || digits > 15) {
    throw wrong(`round takes 0 to 15 digits, got ${digits}`);
  }
  const rounded = Number(`${Math.round(Number(`${Math.abs(value)}e${digits}`))}e-${digits}`);
  return Number.isNaN(rounded) ? value : Math.sign(value) * rounded;
}

/** Recursive descent over the tokens of one expression. */
class Parser {
  #at = 0;
  #depth = 0;
  readonly #tokens: Token[];
  readonly #length: number;

  constructor(tokens: Token[], length: number) {
    this.#tokens = tokens;
    this.#length = length;
  }

  parse(): number {
    if (this.#tokens.length === 0) throw wrong("The expression is empty");
    const value = this.#sum();
    const rest = this.#tokens[this.#at];
    if (rest !== undefined) throw wrong(`An operator is missing before ${describe(rest)}`);
    return value;
  }

  #take(...symbols: string[]): string | null {
    const token = this.#tokens[this.#at];
    if (token?.kind !== "symbol" || !symbols.includes(token.text)) return null;
    this.#at++;
    return token.text;
  }

  #expect(symbol: string): void {
    if (this.#take(symbol) !== null) return;
    throw wrong(`${symbol} is missing ${this.#place()}`);
  }

  #place(): string {
    const token = this.#tokens[this.#at];
    return token === undefined ? `at ${this.#length + 1}, the end` : `before ${describe(token)}`;
  }

  #sum(): number {
    let value = this.#product();
    for (let sign = this.#take("+", "-"); sign !== null; sign = this.#take("+", "-")) {
      const right = this.#product();
      value = sign === "+" ? value + right : value - right;
    }
    return value;
  }

  #product(): number {
    let value = this.#signed();
    for (let sign = this.#take("*", "/", "%"); sign !== null; sign = this.#take("*", "/", "%")) {
      const right = this.#signed();
      if (sign !== "*" && right === 0) {
        throw wrong(sign === "/" ? "Division by zero" : "Remainder of a division by zero");
      }
      value = sign === "*" ? value * right : sign === "/" ? value / right : value % right;
    }
    return value;
  }

  #signed(): number {
    if (++this.#depth > MAX_DEPTH) throw wrong(`The expression nests deeper than ${MAX_DEPTH}`);
    const sign = this.#take("+", "-");
    const value = sign === null ? this.#power() : this.#signed();
    this.#depth--;
    return sign === "-" ? -value : value;
  }

  #power(): number {
    const base = this.#atom();
    if (this.#take("^") === null) return base;
    const exponent = this.#signed();
    const value = base ** exponent;
    if (Number.isNaN(value)) throw wrong(`${base} ^ ${exponent} is not a real number`);
    return value;
  }

  #atom(): number {
    const token = this.#tokens[this.#at];
    if (token === undefined) throw wrong(`A number is missing ${this.#place()}`);
    if (token.kind === "number") {
      this.#at++;
      return token.value;
    }
    if (token.kind === "name") {
      this.#at++;
      return this.#named(token.text);
    }
    if (this.#take("(") === null) throw wrong(`A number is missing ${this.#place()}`);
    const value = this.#sum();
    this.#expect(")");
    return value;
  }

  #named(name: string): number {
    const constant = CONSTANTS.get(name);
    if (constant !== undefined) return constant;
    const called = FUNCTIONS.get(name);
    if (called === undefined) {
      throw wrong(`There is no ${name}; known are ${FUNCTION_NAMES.join(", ")}, pi and e`);
    }
    this.#expect("(");
    const values = [this.#sum()];
    while (this.#take(",") !== null) values.push(this.#sum());
    this.#expect(")");
    if (values.length < called.least || values.length > called.most) {
      const wanted = called.least === called.most
        ? `${called.least}`
        : `${called.least} to ${called.most}`;
      throw wrong(`${name} takes ${wanted} numbers, got ${values.length}`);
    }
    const value = called.run(...values);
    if (Number.isNaN(value)) throw wrong(`${name}(${values.join(", ")}) is not a real number`);
    return value;
  }
}

function describe(token: Token): string {
  return `${token.kind === "number" ? token.value : token.text} at ${token.at}`;
}
