/** An incremental parser of server-sent events. Knows nothing about jobs or HTTP. */

export interface ServerSentEvent {
  event: string;
  data: string;
  id: string;
}

const LINE_END = /\r\n|\n|\r/g;

export class EventParser {
  #unfinished = "";
  #event = "";
  #data: string[] = [];
  #id = "";

  /** The events that `text` completes. */
  *feed(text: string): Generator<ServerSentEvent> {
    const buffer = this.#unfinished + text;
    // A trailing "\r" may be the first half of "\r\n".
    const ready = buffer.endsWith("\r") ? buffer.slice(0, -1) : buffer;
    let start = 0;
    for (const end of ready.matchAll(LINE_END)) {
      const event = this.#line(ready.slice(start, end.index));
      start = end.index + end[0].length;
      if (event !== null) yield event;
    }
    this.#unfinished = buffer.slice(start);
  }

  #line(line: string): ServerSentEvent | null {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return null;
  }

  #dispatch(): ServerSentEvent | null {
    const [event, data] = [this.#event, this.#data];
    [this.#event, this.#data] = ["", []];
    if (event === "" && data.length === 0) return null;
    return { event: event || "message", data: data.join("\n"), id: this.#id };
  }
}
