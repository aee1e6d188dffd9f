import ts from "#typescript";
import type { Problem } from "../../lib/problem.ts";
import type { DefinitionProgram } from "./program.ts";
import { problemAt } from "./reporter.ts";

/** One problem for each repeated top-level declaration, instead of six from the type checker and the bundler. */
export function repeatedDeclarations(file: ts.SourceFile, program: Pick<DefinitionProgram, "relativeName">): Problem[] {
  // A script, as copied code may be, can declare a function again.
  if (!file.statements.some(isModuleSyntax)) return [];
  const first = new Map<string, ts.Node>();
  return file.statements.flatMap(declaredNames).flatMap((name): Problem[] => {
    const other = first.get(name.text);
    if (!other) {
      first.set(name.text, name);
      return [];
    }
    const line = file.getLineAndCharacterOfPosition(other.getStart(file)).line + 1;
    const message = `${name.text} is already declared in line ${line}: rename or remove one of them.`;
    return [problemAt(name, { severity: "error", code: "repeated-declaration", message }, program)];
  });
}

function isModuleSyntax(statement: ts.Statement): boolean {
  if (ts.isImportDeclaration(statement) || ts.isExportDeclaration(statement)) return true;
  return ts.isExportAssignment(statement) || hasModifier(statement, ts.SyntaxKind.ExportKeyword);
}

function hasModifier(statement: ts.Statement, expected: ts.SyntaxKind): boolean {
  return ts.canHaveModifiers(statement) && (statement.modifiers ?? []).some(({ kind }) => kind === expected);
}

/** The names that a statement declares and no other statement of a module may declare. */
function declaredNames(statement: ts.Statement): ts.Identifier[] {
  if (ts.isFunctionDeclaration(statement)) return statement.name && statement.body ? [statement.name] : [];
  if (hasModifier(statement, ts.SyntaxKind.DeclareKeyword)) return [];
  if (ts.isClassDeclaration(statement)) return statement.name ? [statement.name] : [];
  if (!ts.isVariableStatement(statement) || !(statement.declarationList.flags & ts.NodeFlags.BlockScoped)) return [];
  return statement.declarationList.declarations.flatMap(({ name }) => (ts.isIdentifier(name) ? [name] : []));
}
