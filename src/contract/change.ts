/** One difference between two contracts of a server, judged by what it does to somebody who calls it. */
export interface ContractChange {
  readonly subject: "server" | "tool" | "resource" | "template" | "prompt";
  /** The tool's or prompt's name, the resource's URI or template; of the server itself, empty. */
  readonly name: string;
  /** JSON pointer (RFC 6901) into the tool, such as `/inputSchema/properties/gene`; absent when it is about the whole. */
  readonly pointer?: string;
  /**
   * `breaking`: a call that worked may fail, or a reader of the result may not find what was promised.
   * `compatible`: every caller goes on as before. `review`: only a person can tell, such as another description.
   */
  readonly effect: "breaking" | "compatible" | "review";
  /** A full sentence for a person. */
  readonly message: string;
  /** For what is the same thing under another name. */
  readonly renamedTo?: string;
}
