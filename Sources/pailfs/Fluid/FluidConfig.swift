import Basics
import FoundationEssentials

/// What Fluid asks a runtime to mount: the file /etc/fluid/config/config.json in the pod of a ThinRuntime. Fields that it does not
/// need are not looked at.
struct FluidConfig: Equatable, Sendable {
    struct Mount: Equatable, Sendable {
        let url: String
        /// A directory, made if missing.
        let place: String
        /// Lists as for -o.
        let options: [String]
        /// Variables with the keys of the store.
        let environment: [String: String]

        /// The same but for the keys.
        func isSame(as other: Mount) -> Bool { url == other.url && place == other.place && options == other.options }
    }

    /// The same mounts but for their keys.
    func isSame(as other: FluidConfig) -> Bool {
        mounts.count == other.mounts.count && zip(mounts, other.mounts).allSatisfy { $0.isSame(as: $1) }
    }

    let mounts: [Mount]

    /// Where Fluid has the files of secrets.
    private static let secrets = "/etc/fluid/secrets/"

    private struct File: Decodable {
        struct Entry: Decodable {
            let mountPoint: String
            let name: String?
            let path: String?
            let options: [String: String]?
            let readOnly: Bool?
        }

        let mounts: [Entry]
        let targetPath: String
        let accessModes: [String]?
    }

    /// Options that are no options of a mount, and the variables that have their values.
    private static let keys = [
        "access-key-id": "PAILFS_ACCESS_KEY_ID", "secret-access-key": "PAILFS_SECRET_ACCESS_KEY",
        "session-token": "PAILFS_SESSION_TOKEN",
    ]

    /// Fluid writes a secret to a file and its path into the options; `read` returns the text of a file, or nil.
    init(_ bytes: [UInt8], read: (String) -> String?) throws(CommandError) {
        let file: File
        do { file = try JSONDecoder().decode(File.self, from: Data(bytes)) } catch {
            throw CommandError("it is not a JSON object with mounts and targetPath")
        }
        guard file.targetPath.hasPrefix("/") else {
            throw CommandError("its targetPath \(file.targetPath) is not an absolute path")
        }
        let modes = file.accessModes ?? []
        let isReadOnly = !modes.isEmpty && modes.allSatisfy { $0.hasPrefix("ReadOnly") }
        var mounts: [Mount] = []
        for entry in file.mounts {
            var (options, environment): ([String], [String: String]) = ([], [:])
            for (name, value) in (entry.options ?? [:]).sorted(by: { $0.key < $1.key }) {
                guard let variable = Self.keys[name.replacing("_", with: "-")] else {
                    options.append(value.isEmpty ? name : "\(name)=\(value.replacing(",", with: "\\,"))")
                    continue
                }
                // A key may begin with a slash itself.
                let text = value.hasPrefix("/") ? read(value) : value
                guard let text = text ?? (value.hasPrefix(Self.secrets) ? nil : value) else {
                    throw CommandError("its option \(name) names the file \(value), which cannot be read")
                }
                environment[variable] = text.split(whereSeparator: \.isWhitespace).first.map(String.init) ?? ""
            }
            if isReadOnly || entry.readOnly == true { options.append("ro") }
            let given = entry.path.flatMap { $0.isEmpty ? nil : $0 }
            let below = given ?? (file.mounts.count == 1 ? "/" : "/" + (entry.name ?? ""))
            let place = Self.place(below, in: file.targetPath)
            guard let place, !mounts.contains(where: { Self.overlap($0.place, place) }) else {
                throw CommandError(
                    "its mount \(entry.mountPoint) needs a name or a path below targetPath that is in no other mount")
            }
            mounts.append(
                Mount(url: entry.mountPoint, place: place, options: options, environment: environment))
        }
        self.mounts = mounts
    }

    /// Whether the paths are the same, or one is below the other.
    static func overlap(_ one: String, _ other: String) -> Bool {
        one == other || one.hasPrefix(other + "/") || other.hasPrefix(one + "/")
    }

    /// nil for a path that leads out of `top`.
    private static func place(_ path: String, in top: String) -> String? {
        let components = path.split(separator: "/")
        guard !components.contains(".."), !components.contains(".") else { return nil }
        return ([top.hasSuffix("/") ? String(top.dropLast()) : top] + components.map(String.init)).joined(
            separator: "/")
    }
}
