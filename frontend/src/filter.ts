// The filter of a grid by the names of its rows; pages/project/filters.py does the same on the server.

/** Returns whether all words of the text occur in the name. */
export function admits(name: string, text: string): boolean {
  const lower = name.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}

/** The query string with a key set, or without it if the value is empty. */
export function withKey(search: string, key: string, value: string): string {
  const query = new URLSearchParams(search);
  if (value) query.set(key, value);
  else query.delete(key);
  const text = query.toString();
  return text ? `?${text}` : "";
}
