/** True for a script. Windows editors may add a byte-order mark. */
export function isScript(text: string): boolean {
  return /^\uFEFF?#!/.test(text);
}

/** A script as interpreters expect it: without a byte-order mark and the carriage returns of Windows line ends. */
export function scriptText(text: string): string {
  return text.replace(/^\uFEFF/, "").replace(/\r(?=\n|$)/g, "");
}
