// A project that uses the plugin as its README says.
import yrelay from "yrelay-client/lint";

export default [yrelay.configs.recommended];
