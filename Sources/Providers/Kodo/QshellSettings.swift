import FoundationEssentials

/// The servers in qshell's own settings file, `~/.qshell.json` (qshell 2, "hosts" and "use_https").
struct QshellSettings: Decodable {
    /// A list of names, or one name as text.
    struct Names: Decodable {
        let all: [String]

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let one = try? container.decode(String.self) {
                all = [one]
            } else {
                all = try container.decode([String].self)
            }
        }
    }

    struct Hosts: Decodable {
        let uc: Names?
        let up: Names?
        let rs: Names?
        let rsf: Names?
        let io: Names?
    }

    /// A boolean, or its text: qshell accepts both.
    enum Truth: Decodable {
        case value(Bool)

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let value = try? container.decode(Bool.self) {
                self = .value(value)
            } else {
                self = .value(try container.decode(String.self).lowercased() == "true")
            }
        }
    }

    private let hosts: Hosts?
    private let secure: Truth?

    private enum CodingKeys: String, CodingKey {
        case hosts
        case secure = "use_https"
    }

    /// nil when the text is not in qshell's format.
    init?(_ text: String) {
        guard let read = try? JSONDecoder().decode(Self.self, from: Data(text.utf8)) else { return nil }
        self = read
    }

    /// The first host of the service that returns a bucket's servers.
    var endpoint: String? { hosts?.uc?.all.first { !$0.isEmpty } }
    /// nil where the file does not set it.
    var isSecure: Bool? {
        guard case .value(let value) = secure else { return nil }
        return value
    }
    /// Whether the file names servers of a bucket without that service.
    var lacksEndpoint: Bool {
        endpoint == nil && [hosts?.up, hosts?.rs, hosts?.rsf, hosts?.io].contains { $0?.all.isEmpty == false }
    }
}
