import ts from "#typescript";
import type { Walker } from "./walker.ts";

/**
 * Why an object that comes from JSON is no instance of a class of the author's: it has no methods and no private fields.
 * A class that is nothing but its fields is as good as an interface.
 */
export function whyNoData(type: ts.Type, { checker, isLibrary }: Walker): string | undefined {
  const symbols = checker.getPropertiesOfType(type);
  const membersOfClasses = symbols.flatMap((symbol) => {
    const declaration = symbol.valueDeclaration;
    const owner = declaration && ts.isParameter(declaration) ? declaration.parent.parent : declaration?.parent;
    if (!declaration || !owner || !ts.isClassLike(owner) || isLibrary(owner.getSourceFile())) return [];
    return [{ symbol, declaration, owner }];
  });
  const methods = membersOfClasses.filter(({ symbol }) => isMethod(symbol));
  const hidden = membersOfClasses.filter(({ declaration }) => isHidden(declaration));
  const [first] = [...hidden, ...methods];
  if (!first) return undefined;
  const what = [hidden.length > 0 ? "private fields" : "", methods.length > 0 ? "methods" : ""].filter(Boolean);
  const isData = (symbol: ts.Symbol) =>
    !isMethod(symbol) &&
    !(symbol.valueDeclaration && isHidden(symbol.valueDeclaration)) &&
    !/^__[@#]/.test(symbol.name);
  const fields = symbols.filter(isData).map((symbol) => {
    const optional = symbol.flags & ts.SymbolFlags.Optional ? "?" : "";
    return `${symbol.name}${optional}: ${checker.typeToString(checker.getTypeOfSymbol(symbol))}`;
  });
  const shown = [...fields.slice(0, fieldsMax), ...(fields.length > fieldsMax ? ["…"] : [])];
  const instead = shown.length > 0 ? `: { ${shown.join("; ")} }` : "";
  const name = first.owner.name?.text ?? "this";
  return `${name} is a class with ${what.join(" and ")}, which JSON cannot carry; use an interface of its fields${instead}`;
}

const fieldsMax = 5;

function isMethod({ flags }: ts.Symbol): boolean {
  return Boolean(flags & ts.SymbolFlags.Method) && !(flags & ts.SymbolFlags.Optional);
}

function isHidden(declaration: ts.Declaration): boolean {
  const name = ts.getNameOfDeclaration(declaration);
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
  return (
    Boolean(ts.getCombinedModifierFlags(declaration) & hidden) || (name !== undefined && ts.isPrivateIdentifier(name))
  );
}
