import ts from "#typescript";
import type { JsonSchema } from "../../lib/json.ts";
import { docOfSymbol } from "../doc-comments.ts";

/** An enum of which all members are among those of a union. */
export interface WholeEnum {
  readonly type: ts.Type;
  readonly declaration: ts.EnumDeclaration;
  readonly members: ReadonlySet<ts.Type>;
  readonly values: ReadonlyMap<ts.EnumMember, string | number>;
}

export function enumsOf(members: readonly ts.Type[]): WholeEnum[] {
  const byEnum = new Map<ts.EnumDeclaration, Map<ts.EnumMember, ts.Type>>();
  for (const type of members) {
    const declaration = type.flags & ts.TypeFlags.EnumLiteral ? type.symbol.valueDeclaration : undefined;
    if (!declaration || !ts.isEnumMember(declaration)) continue;
    const known = byEnum.get(declaration.parent) ?? new Map<ts.EnumMember, ts.Type>();
    byEnum.set(declaration.parent, known.set(declaration, type));
  }
  return [...byEnum].map(([declaration, found]) => ({
    type: [...found.values()][0]!,
    declaration,
    members: new Set(found.values()),
    values: new Map([...found].map(([member, type]) => [member, (type as ts.LiteralType).value as string | number])),
  }));
}

/**
 * True where the members are bits that are put together: `Read | Write` is a value, too, though it is no member. Two or
 * three members could as well be a count (1, 2), so that these have to be written as bits.
 */
export function isFlags({ declaration, values }: WholeEnum): boolean {
  if (values.size < declaration.members.length) return false;
  const numbers = [...values.values()].filter((value) => typeof value === "number");
  const isBits =
    numbers.length === values.size &&
    numbers.every((value) => Number.isInteger(value) && value >= 0 && value <= bitsMax);
  if (!isBits) return false;
  const known = new Set([0, ...numbers]);
  if (numbers.every((left) => numbers.every((right) => known.has(left | right)))) return false;
  const singles = numbers.filter((value) => value > 0 && (value & (value - 1)) === 0);
  const all = singles.reduce((sum, bit) => sum | bit, 0);
  const isSumOfSingles = numbers.every((value) => (value & all) === value);
  const isWrittenAsBits = declaration.members.some(
    ({ initializer }) => initializer !== undefined && hasBitOperator(initializer),
  );
  const areSpelled = declaration.members.every(({ initializer }) => initializer !== undefined);
  // 1, 2, 3 and 4 are numbers in order; a mask that is written as a number is the one of all bits.
  const hasNoOrder = numbers.every((value) => value === 0 || value === all || singles.includes(value));
  return isSumOfSingles && (isWrittenAsBits || (areSpelled && singles.length >= 3 && hasNoOrder));
}

const bitsMax = 2 ** 30;

function hasBitOperator(node: ts.Node): boolean {
  if (ts.isBinaryExpression(node)) {
    const operators = [ts.SyntaxKind.BarToken, ts.SyntaxKind.LessThanLessThanToken];
    if (operators.includes(node.operatorToken.kind)) return true;
  }
  return ts.forEachChild(node, hasBitOperator) ?? false;
}

/** Any sum of the members. */
export function flagsSchema({ values }: WholeEnum): JsonSchema {
  const all = [...values.values()].reduce<number>((sum, value) => sum | (value as number), 0);
  const lowest = all & -all;
  const isWithoutGaps = Number.isInteger(Math.log2(all / lowest + 1));
  const step = lowest > 1 ? { multipleOf: lowest } : {};
  if (isWithoutGaps) return { type: "integer", minimum: 0, maximum: all, ...step };
  const sums = sumsOf(all);
  return sums ? { type: "integer", enum: sums } : { type: "integer", minimum: 0, maximum: all, ...step };
}

const sumsMax = 64;

/** All numbers that have none but the given bits; undefined when there are too many. */
function sumsOf(bits: number): number[] | undefined {
  const sums = [0];
  for (let bit = 1; bit <= bits; bit *= 2) {
    if (!(bits & bit)) continue;
    if (sums.length * 2 > sumsMax) return undefined;
    sums.push(...sums.map((sum) => sum + bit));
  }
  return sums;
}

/** A line for each member that has a comment. Of flags, whose sums alone are in the schema, each member has one. */
export function membersText(found: WholeEnum): string[] {
  const areFlags = isFlags(found);
  const lines = [...found.values].flatMap(([member, value]) => {
    const symbol = (member as unknown as { symbol?: ts.Symbol }).symbol;
    const words = symbol ? docOfSymbol(symbol).description.replace(/\s+/g, " ") : "";
    if (words === "" && !areFlags) return [];
    return [`- ${JSON.stringify(value)} (${member.name.getText()})${words === "" ? "" : `: ${words}`}`];
  });
  const shown = lines.length > linesMax ? [...lines.slice(0, linesMax), "- …"] : lines;
  return areFlags ? ["A sum of any of:", ...shown] : shown;
}

const linesMax = 50;
