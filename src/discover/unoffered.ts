import ts from "#typescript";
import type { Problem } from "../lib/problem.ts";
import type { DefinitionProgram } from "./program.ts";
import { problemAt } from "./reporter.ts";

/**
 * Exports of a module with tools that are most likely meant as more tools, and that cannot be offered: those of modules
 * that are not seen, and functions inside of a default export.
 */
export function unofferedExports(program: DefinitionProgram): Problem[] {
  const { checker, entry } = program;
  const warn = (node: ts.Node, code: string, message: string) =>
    problemAt(node, { severity: "warning", code, message }, program);

  return entry.statements.flatMap((statement): Problem[] => {
    if (ts.isExportAssignment(statement)) {
      const functions = functionsIn(statement.expression, checker);
      if (functions.length === 0) return [];
      const message = `${functions.join(", ")} of the default export cannot be offered; export each function by itself`;
      return [warn(statement, "default-object", message)];
    }
    if (!ts.isExportDeclaration(statement) || statement.isTypeOnly || !statement.moduleSpecifier) return [];
    if (!ts.isStringLiteral(statement.moduleSpecifier) || checker.getSymbolAtLocation(statement.moduleSpecifier))
      return [];
    const { text } = statement.moduleSpecifier;
    const what = statement.exportClause === undefined ? "what it exports" : statement.exportClause.getText();
    const message = `"${text}" is not among the files of this definition, so that ${what} cannot be offered; write a function that calls it`;
    return [warn(statement.moduleSpecifier, "unseen-exports", message)];
  });
}

function functionsIn(expression: ts.Expression, checker: ts.TypeChecker): string[] {
  const type = checker.getTypeAtLocation(expression);
  if (type.getCallSignatures().length > 0 || !(type.flags & ts.TypeFlags.Object)) return [];
  const functions = checker
    .getPropertiesOfType(type)
    .filter((property) => checker.getTypeOfSymbol(property).getCallSignatures().length > 0);
  const names = functions.map(({ name }) => name);
  return names.length > namesMax ? [...names.slice(0, namesMax), "…"] : names;
}

const namesMax = 5;
