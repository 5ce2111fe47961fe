export {areaY, barX, dot, lineY, plot, pointer, pointerY, rect, ruleX, ruleY, text, tip} from "@observablehq/plot";
