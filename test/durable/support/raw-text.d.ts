/** Files that Vite gives as text. */
declare module "*?raw" {
  const text: string;
  export default text;
}
