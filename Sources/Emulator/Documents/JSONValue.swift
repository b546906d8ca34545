/// A JSON document to be written (RFC 8259); names keep their order.
indirect enum JSONValue: Sendable {
    case object([(name: String, value: JSONValue)])
    case array([JSONValue])
    case string(String)
    case number(Int64)
    case bool(Bool)
    case null

    var text: String {
        switch self {
        case .object(let members):
            "{" + members.map { "\(JSONText.quote($0.name)):\($0.value.text)" }.joined(separator: ",") + "}"
        case .array(let items): "[" + items.map(\.text).joined(separator: ",") + "]"
        case .string(let text): JSONText.quote(text)
        case .number(let number): String(number)
        case .bool(let value): value ? "true" : "false"
        case .null: "null"
        }
    }

    var bytes: [UInt8] { Array(text.utf8) }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByDictionaryLiteral,
    ExpressibleByArrayLiteral, ExpressibleByBooleanLiteral
{
    init(stringLiteral value: String) { self = .string(value) }
    init(integerLiteral value: Int64) { self = .number(value) }
    init(booleanLiteral value: Bool) { self = .bool(value) }
    init(dictionaryLiteral elements: (String, JSONValue)...) { self = .object(elements.map { ($0.0, $0.1) }) }
    init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
}
