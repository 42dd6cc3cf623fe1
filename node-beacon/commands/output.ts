/** Exit statuses of all commands. */
export const OK = 0;
export const BROKEN = 1;
export const WRONG_SETTING = 2;

/** Where a command writes for the person who ran it. */
export type Print = (line: string) => void;
