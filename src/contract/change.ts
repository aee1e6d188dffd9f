/** One difference between two contracts of a server, judged by its effect on callers. */
export interface ContractChange {
  readonly subject: "server" | "tool" | "resource" | "template" | "prompt";
  /** The tool's or prompt's name, the resource's URI or template; empty for the server itself. */
  readonly name: string;
  /**
   * JSON pointer (RFC 6901) into the tool, such as `/inputSchema/properties/gene`; absent if the whole tool is meant.
   */
  readonly pointer?: string;
  /**
   * `breaking`: a call that worked may fail, or a result may lack what was promised. `compatible`: no caller notices.
   * `review`: only a person can tell, for example for a changed description.
   */
  readonly effect: "breaking" | "compatible" | "review";
  /** A full sentence for a person. */
  readonly message: string;
  /** The new name, if the same thing was renamed. */
  readonly renamedTo?: string;
}
