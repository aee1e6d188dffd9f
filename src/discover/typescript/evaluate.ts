import ts from "#typescript";
import type { Json } from "../../lib/json.ts";
import { followAlias } from "./types/kinds.ts";

const stepsMax = 10_000;
const levelsMax = 200;

/**
 * The JSON value of a constant expression: literals, and what resolves to literals through `const`, enum members,
 * properties of constant objects and plain arithmetic. Undefined for everything else. Without a checker, names are not
 * resolved.
 */
export function evaluate(expression: ts.Expression, checker?: ts.TypeChecker): Json | undefined {
  let steps = 0;
  const inProgress = new Set<ts.Node>();

  const visit = (node: ts.Expression): Json | undefined => {
    steps += 1;
    if (steps > stepsMax || inProgress.size > levelsMax || inProgress.has(node)) return undefined;
    inProgress.add(node);
    const value = compute(node);
    inProgress.delete(node);
    return typeof value === "number" && !Number.isFinite(value) ? undefined : value;
  };

  const compute = (node: ts.Expression): Json | undefined => {
    if (
      ts.isParenthesizedExpression(node) ||
      ts.isAsExpression(node) ||
      ts.isSatisfiesExpression(node) ||
      ts.isTypeAssertionExpression(node) ||
      ts.isNonNullExpression(node)
    )
      return visit(node.expression);
    if (ts.isStringLiteralLike(node)) return node.text;
    if (ts.isNumericLiteral(node)) return Number(node.text);
    switch (node.kind) {
      case ts.SyntaxKind.TrueKeyword:
        return true;
      case ts.SyntaxKind.FalseKeyword:
        return false;
      case ts.SyntaxKind.NullKeyword:
        return null;
    }
    if (ts.isTemplateExpression(node)) return template(node);
    if (ts.isPrefixUnaryExpression(node)) return unary(node);
    if (ts.isBinaryExpression(node)) return binary(node);
    if (ts.isArrayLiteralExpression(node)) return array(node);
    if (ts.isObjectLiteralExpression(node)) return object(node);
    if (ts.isIdentifier(node)) return constant(symbolAt(node));
    if (ts.isPropertyAccessExpression(node) || ts.isElementAccessExpression(node)) return member(node);
    if (ts.isCallExpression(node) && node.expression.getText() === "Object.freeze" && node.arguments[0])
      return visit(node.arguments[0]);
    return undefined;
  };

  const template = (node: ts.TemplateExpression): string | undefined => {
    let text = node.head.text;
    for (const span of node.templateSpans) {
      const value = visit(span.expression);
      if (value === undefined || typeof value === "object") return undefined;
      text += String(value) + span.literal.text;
    }
    return text;
  };

  const unary = (node: ts.PrefixUnaryExpression): Json | undefined => {
    const value = visit(node.operand);
    if (node.operator === ts.SyntaxKind.ExclamationToken) return typeof value === "boolean" ? !value : undefined;
    if (typeof value !== "number") return undefined;
    if (node.operator === ts.SyntaxKind.MinusToken) return -value;
    if (node.operator === ts.SyntaxKind.PlusToken) return value;
    return node.operator === ts.SyntaxKind.TildeToken ? ~value : undefined;
  };

  const binary = (node: ts.BinaryExpression): Json | undefined => {
    const left = visit(node.left);
    const right = visit(node.right);
    const isText = (value: unknown) => typeof value === "string" || typeof value === "number";
    if (node.operatorToken.kind === ts.SyntaxKind.PlusToken && typeof left !== typeof right) {
      return isText(left) && isText(right) ? `${left as string}${right as string}` : undefined;
    }
    if (typeof left === "string" && typeof right === "string") {
      return node.operatorToken.kind === ts.SyntaxKind.PlusToken ? left + right : undefined;
    }
    return typeof left === "number" && typeof right === "number"
      ? arithmetic[node.operatorToken.kind]?.(left, right)
      : undefined;
  };

  const array = (node: ts.ArrayLiteralExpression): Json | undefined => {
    const values: Json[] = [];
    for (const element of node.elements) {
      const isSpread = ts.isSpreadElement(element);
      const value = visit(isSpread ? element.expression : element);
      if (value === undefined || (isSpread && !Array.isArray(value))) return undefined;
      values.push(...(isSpread ? (value as Json[]) : [value]));
      steps += values.length;
      if (steps > stepsMax) return undefined;
    }
    return values;
  };

  const object = (node: ts.ObjectLiteralExpression): Json | undefined => {
    const entries: [string, Json][] = [];
    for (const property of node.properties) {
      if (ts.isSpreadAssignment(property)) {
        const value = visit(property.expression);
        if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
        entries.push(...Object.entries(value));
        continue;
      }
      if (!ts.isPropertyAssignment(property) && !ts.isShorthandPropertyAssignment(property)) return undefined;
      const name = propertyName(property.name);
      if (name === undefined) return undefined;
      const initializer = ts.isPropertyAssignment(property) ? property.initializer : undefined;
      if (initializer && ts.isIdentifier(initializer) && initializer.text === "undefined") continue;
      const value = initializer ? visit(initializer) : constant(checker?.getShorthandAssignmentValueSymbol(property));
      if (value === undefined) return undefined;
      entries.push([name, value]);
    }
    return Object.fromEntries(entries);
  };

  const propertyName = (name: ts.PropertyName): string | undefined => {
    if (!ts.isComputedPropertyName(name)) return name.text;
    const value = visit(name.expression);
    return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
  };

  const member = (node: ts.PropertyAccessExpression | ts.ElementAccessExpression): Json | undefined => {
    const enumValue = checker?.getConstantValue(node);
    if (enumValue !== undefined) return enumValue;
    const key = ts.isPropertyAccessExpression(node) ? node.name.text : visit(node.argumentExpression);
    const owner = visit(node.expression);
    if (typeof owner === "object" && owner !== null && (typeof key === "string" || typeof key === "number")) {
      return Object.hasOwn(owner, key) && !(Array.isArray(owner) && key === "length")
        ? (owner as Record<string, Json>)[key]
        : undefined;
    }
    return constant(symbolAt(node));
  };

  const symbolAt = (node: ts.Node): ts.Symbol | undefined => {
    const symbol = checker?.getSymbolAtLocation(node);
    return checker && followAlias(symbol, checker);
  };

  /** The initial value of a `const`, an enum member or a `static readonly` property. */
  const constant = (symbol: ts.Symbol | undefined): Json | undefined => {
    const declaration = symbol?.valueDeclaration;
    if (!declaration) return undefined;
    if (ts.isEnumMember(declaration)) return checker?.getConstantValue(declaration);
    const isConstant = ts.isVariableDeclaration(declaration)
      ? ts.isVariableDeclarationList(declaration.parent) &&
        Boolean(declaration.parent.flags & ts.NodeFlags.Const) &&
        ts.isIdentifier(declaration.name)
      : ts.isPropertyDeclaration(declaration) && isStaticReadonly(declaration);
    const { initializer } = declaration as ts.VariableDeclaration | ts.PropertyDeclaration;
    return isConstant && initializer ? visit(initializer) : undefined;
  };

  return visit(expression);
}

function isStaticReadonly(declaration: ts.PropertyDeclaration): boolean {
  const required = ts.ModifierFlags.Static | ts.ModifierFlags.Readonly;
  return (ts.getCombinedModifierFlags(declaration) & required) === required;
}

const arithmetic: Readonly<Partial<Record<ts.SyntaxKind, (left: number, right: number) => number>>> = {
  [ts.SyntaxKind.PlusToken]: (left, right) => left + right,
  [ts.SyntaxKind.MinusToken]: (left, right) => left - right,
  [ts.SyntaxKind.AsteriskToken]: (left, right) => left * right,
  [ts.SyntaxKind.SlashToken]: (left, right) => left / right,
  [ts.SyntaxKind.PercentToken]: (left, right) => left % right,
  [ts.SyntaxKind.AsteriskAsteriskToken]: (left, right) => left ** right,
  [ts.SyntaxKind.BarToken]: (left, right) => left | right,
  [ts.SyntaxKind.AmpersandToken]: (left, right) => left & right,
  [ts.SyntaxKind.CaretToken]: (left, right) => left ^ right,
  [ts.SyntaxKind.LessThanLessThanToken]: (left, right) => left << right,
  [ts.SyntaxKind.GreaterThanGreaterThanToken]: (left, right) => left >> right,
};
