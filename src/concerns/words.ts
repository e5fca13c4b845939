// Numbers in the words of concerns.

export const count = (number: number): string => number.toLocaleString('en')
export const plural = (number: number, noun: string): string =>
  `${count(number)} ${noun}${number === 1 ? '' : 's'}`
