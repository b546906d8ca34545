import Basics

/// A clouds.yaml file: the subset of YAML in which users write such files (YAML 1.2), JSON among it.
///
/// Mappings and lists by indentation or in brackets, scalars that are plain, quoted or in a block, anchors, aliases and `<<`.
/// Other YAML (tags, plain or quoted scalars over several lines) is refused with its line, and not misread. Names are as in
/// openstacksdk: `-` is `_`.
package struct CloudsFile: Sendable {
    /// Why a file cannot be parsed, in one sentence without its name.
    package struct Malformed: Error, Sendable, CustomStringConvertible {
        package let line: Int
        package let reason: String
        package var description: String { "line \(line): \(reason)" }
    }

    indirect enum Node: Sendable, Hashable {
        case scalar(String)
        case list([Node])
        case mapping([String: Node])

        subscript(_ name: String) -> Node? {
            guard case .mapping(let members) = self else { return nil }
            return members[name]
        }

        var text: String? {
            guard case .scalar(let text) = self, !text.isEmpty else { return nil }
            return text
        }

        var items: [Node] {
            guard case .list(let items) = self else { return [] }
            return items
        }

        /// `other`'s members over this node's, at all levels.
        func merged(with other: Node) -> Node {
            guard case .mapping(var members) = self, case .mapping(let more) = other else { return other }
            for (name, node) in more { members[name] = members[name]?.merged(with: node) ?? node }
            return .mapping(members)
        }
    }

    private(set) var root = Node.mapping([:])

    package init(parsing text: String) throws(Malformed) {
        var reader = YAMLReader(text)
        root = try reader.document()
    }

    /// The settings under `clouds.<name>`, with those of a file of secrets over them.
    func cloud(_ name: String, with secrets: CloudsFile?) -> Node? {
        let own = root["clouds"]?[name]
        guard let more = secrets?.root["clouds"]?[name] else { return own }
        return own?.merged(with: more) ?? more
    }

    /// A vendor's settings in a file of vendors.
    func vendor(_ name: String) -> Node? { root["public_clouds"]?[name] }

    /// The name of the only cloud; nil if there are several.
    var onlyCloud: String? {
        guard case .mapping(let clouds)? = root["clouds"], clouds.count == 1 else { return nil }
        return clouds.keys.first
    }
}
