import FuseBridge
import Settings

/// Why a command ends: one sentence that names the cause and the remedy.
struct CommandError: Error, CustomStringConvertible {
    let message: String

    init(_ message: String) { self.message = message }
    init(_ error: FuseError) { message = error.message }
    init(_ error: SettingsError) { message = error.description }

    var description: String { message }
}
