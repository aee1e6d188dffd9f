import ts from "#typescript";

/** Questions about types that TypeScript answers only in pieces, or keeps to itself. */

/** A type that could not be found: misspelt, or imported from what the definition does not hold. */
export function isUnresolved(type: ts.Type): boolean {
  const { intrinsicName } = type as { intrinsicName?: string };
  return Boolean(type.flags & ts.TypeFlags.Any) && (intrinsicName === "error" || intrinsicName === "unresolved");
}

export function isFunction(type: ts.Type): boolean {
  return isCallable(type) || type.getConstructSignatures().length > 0;
}

export function isCallable(type: ts.Type): boolean {
  return type.getCallSignatures().length > 0;
}

export function isObjectLike({ flags }: ts.Type): boolean {
  return Boolean(flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection));
}

/** The symbol that an import or export leads to; any other symbol itself. */
export function followAlias<S extends ts.Symbol | undefined>(symbol: S, checker: ts.TypeChecker): ts.Symbol | S {
  return symbol && symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

/** The value that a name means at a location. */
export function valueInScope(name: string, location: ts.Node, checker: ts.TypeChecker): ts.Symbol | undefined {
  const { resolveName } = checker as unknown as {
    resolveName: (name: string, at: ts.Node, meaning: ts.SymbolFlags, excludeGlobals: boolean) => ts.Symbol | undefined;
  };
  return resolveName(name, location, ts.SymbolFlags.Value, true);
}

/** Stands for no value at all in JSON. */
export function isNothing(type: ts.Type): boolean {
  return Boolean(type.flags & (ts.TypeFlags.Undefined | ts.TypeFlags.Void));
}

/** The members of a type, and of what a caller decides on those of its constraint. */
export function knownMembers(type: ts.Type, checker: ts.TypeChecker): readonly ts.Type[] {
  return membersOf(type).flatMap((member) => {
    return membersOf(isOpenEnded(member) ? (checker.getBaseConstraintOfType(member) ?? member) : member);
  });
}

export function mayBeNothing(type: ts.Type, checker: ts.TypeChecker): boolean {
  return knownMembers(type, checker).some(isNothing);
}

export function isNull(type: ts.Type): boolean {
  return Boolean(type.flags & ts.TypeFlags.Null);
}

/** Still to be decided by a caller: a type parameter, or what is computed from one. */
export function isOpenEnded(type: ts.Type): boolean {
  const decided = ts.TypeFlags.TemplateLiteral | ts.TypeFlags.StringMapping;
  return Boolean(type.flags & ts.TypeFlags.Instantiable) && !(type.flags & decided);
}

export function membersOf(type: ts.Type): readonly ts.Type[] {
  return type.isUnion() ? type.types : [type];
}

/** Equal for types that have the same schema, whether or not `undefined` is among them. */
export function keyOf(type: ts.Type, without: (member: ts.Type) => boolean = () => false): string {
  const members = membersOf(type).filter((member) => !isNothing(member) && !without(member));
  return members
    .map((member) => (member as unknown as { id: number }).id)
    .sort((a, b) => a - b)
    .join(",");
}

/** The name of a type that the language or the host declares, such as `Date`; undefined for the author's own. */
export function libraryName(type: ts.Type, isLibrary: (file: ts.SourceFile) => boolean): string | undefined {
  const declarations = type.symbol?.declarations ?? [];
  const known = declarations.length > 0 && declarations.every((declaration) => isLibrary(declaration.getSourceFile()));
  return known && type.flags & ts.TypeFlags.Object ? type.symbol.name : undefined;
}

/** The name that an author gave a type. */
export function nameOf(type: ts.Type): string | undefined {
  const name = type.aliasSymbol?.name ?? type.symbol?.name ?? "";
  return name.startsWith("__") || name === "" ? undefined : name;
}
