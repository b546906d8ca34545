import FoundationEssentials
import ObjectStorage
import Settings

/// The message that comes with the descriptor of a mount: one object of JSON, with the fields that the CSI driver of Mountpoint
/// for Amazon S3 sends.
///
/// A field that is not known is an error: the sender asks for something that this program would not do.
struct HandedMessage: Equatable {
    /// A bucket of S3, or a URL.
    let bucketName: String?
    /// Options, as the command line has them.
    let args: [String]
    /// NAME=VALUE.
    let env: [String]

    private static let fields: Set<String> = ["bucketName", "args", "env"]

    private struct Field: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { return nil }
    }

    /// Whether the bytes are a whole object of JSON.
    static func isWhole(_ bytes: [UInt8]) -> Bool { (try? JSONDecoder().decode(Shape.self, from: Data(bytes))) != nil }

    private struct Shape: Decodable {
        init(from decoder: any Decoder) throws { _ = try decoder.container(keyedBy: Field.self) }
    }

    private struct Text: Decodable {
        let message: HandedMessage

        init(from decoder: any Decoder) throws {
            let fields = try decoder.container(keyedBy: Field.self)
            let names = fields.allKeys.map(\.stringValue)
            if let unknown = names.filter({ !HandedMessage.fields.contains($0) }).min() {
                throw CommandError("it has the unknown field \(unknown); bucketName, args and env are known")
            }
            func list(_ name: String) throws -> [String] {
                do {
                    return try fields.decodeIfPresent([String].self, forKey: Field(stringValue: name)) ?? []
                } catch { throw CommandError("its field \(name) is not a list of strings") }
            }
            let bucket: String?
            do { bucket = try fields.decodeIfPresent(String.self, forKey: Field(stringValue: "bucketName")) } catch {
                throw CommandError("its field bucketName is not a string")
            }
            message = HandedMessage(bucketName: bucket, args: try list("args"), env: try list("env"))
        }
    }

    init(bucketName: String?, args: [String], env: [String]) {
        (self.bucketName, self.args, self.env) = (bucketName, args, env)
    }

    init(_ bytes: [UInt8]) throws(CommandError) {
        do { self = try JSONDecoder().decode(Text.self, from: Data(bytes)).message } catch let error as CommandError {
            throw error
        } catch { throw CommandError("it is not a JSON object with bucketName, args and env") }
        for variable in env where variable.first == "=" || !variable.contains("=") {
            throw CommandError("its env has \"\(variable.prefix { $0 != "=" })\", which is not NAME=VALUE")
        }
    }

    // MARK: the request

    /// The URL to mount. `given` is that of the command line, whose bucket the message may only repeat.
    func url(given: String?) throws(CommandError) -> String {
        let named = bucketName.flatMap { $0.isEmpty ? nil : $0 }
        guard let given else {
            guard let named else { throw CommandError("it names no bucket; send bucketName, or give pailfs a URL") }
            return named.contains("://") ? named : "s3://\(named)"
        }
        let bucket: String?
        do { bucket = try BucketURL(parsing: given).bucket } catch { throw CommandError(error.description) }
        guard let named, named != given, named != bucket else { return given }
        throw CommandError("its bucketName is \(named), and the command line has \(given); leave one out")
    }

    /// The lists of `-o` that `args` stand for. The mount's owner decides how it is served, so --foreground says nothing here.
    func options() throws(CommandError) -> [String] {
        var rest: ArraySlice<String>
        do { rest = try MountSettings.replacingLongOptions(in: args)[...] } catch { throw CommandError(error) }
        var lists: [String] = []
        while let word = rest.popFirst() {
            if ["-f", "--foreground"].contains(word) { continue }
            let list = word == "-o" ? rest.popFirst() : word.hasPrefix("-o") ? String(word.dropFirst(2)) : nil
            guard let list else { throw CommandError("its args have \(word), which is not a mount option") }
            lists.append(list)
        }
        return lists
    }
}
